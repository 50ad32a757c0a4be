"""The commands `headgate dev` and `headgate demo`: their options, and nothing else."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.session import Session
from headgate.common.errors import HeadgateError

if TYPE_CHECKING:
    from headgate.cli.dev.plan import Options

Directory = Annotated[
    Path, typer.Option("--dir", envvar="HEADGATE_DEV_DIR", help="Where data, logs and dev.json are kept.")
]
KafkaPort = Annotated[int, typer.Option(envvar="HEADGATE_DEV_KAFKA_PORT", help="Kafka.")]
RegistryPort = Annotated[int, typer.Option(envvar="HEADGATE_DEV_REGISTRY_PORT", help="Schema Registry.")]
WebhookPort = Annotated[
    int, typer.Option(envvar="HEADGATE_DEV_WEBHOOK_PORT", help="Webhooks; a second replica takes the next.")
]
HealthPort = Annotated[
    int,
    typer.Option(
        envvar="HEADGATE_DEV_HEALTH_PORT", help="Base of the health ports: services take the ones above it."
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option(envvar="HEADGATE_KAFKA__PREFIX", help="First part of the topics' names (headgate)."),
]
Bootstrap = Annotated[
    str | None, typer.Option(envvar="HEADGATE_KAFKA__BOOTSTRAP", help="Use this Kafka; start none.")
]
RegistryUrl = Annotated[
    str | None, typer.Option(envvar="HEADGATE_REGISTRY__URL", help="Use this Schema Registry; start none.")
]
Only = Annotated[
    list[str] | None, typer.Option(envvar="HEADGATE_DEV_ONLY", help="Only these services: webhook,processor")
]
Scale = Annotated[
    list[str] | None, typer.Option(envvar="HEADGATE_DEV_SCALE", help="Replicas: processor=2,runner=2")
]
Reset = Annotated[bool, typer.Option("--reset", help="Delete the data of earlier runs first.")]
Once = Annotated[
    bool, typer.Option("--once", help="Stop after the timeline; exit 1 if it was not as promised.")
]


COMMON: dict[str, tuple[Any, Any]] = {
    "directory": (Directory, Path(".headgate")),
    "kafka_port": (KafkaPort, 9092),
    "registry_port": (RegistryPort, 8085),
    "webhook_port": (WebhookPort, 8081),
    "health_port": (HealthPort, 9100),
    "prefix": (Prefix, None),
    "bootstrap": (Bootstrap, None),
    "registry": (RegistryUrl, None),
    "scale": (Scale, None),
    "reset": (Reset, False),
}
"""What both commands take, by the names that `plan.Options` has for it."""


def _with_common(body: Callable[..., int]) -> Callable[..., None]:
    """A command of `body(common, ...)`: its own options, and those of both. What stands before the command's
    name counts too."""
    own = [one for name, one in inspect.signature(body, eval_str=True).parameters.items() if name != "common"]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in COMMON.items()
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    def run(**given: Any) -> None:
        before = given.pop("ctx").find_object(Session)
        common = {name: given.pop(name) for name in COMMON}
        for name in ("prefix", "bootstrap", "registry"):
            common[name] = common[name] or getattr(before, name, None)
        common["prefix"] = common["prefix"] or "headgate"
        _exit(functools.partial(body, common, **given))

    parameters = [context, *shared, *own]
    run.__name__, run.__doc__ = body.__name__, body.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


@_with_common
def dev(common: dict[str, Any], *, only: Only = None) -> int:
    """Run all of Headgate here: a real Kafka, a real Schema Registry and every service, until Ctrl-C."""
    from headgate.cli.dev import hints
    from headgate.cli.dev.demo_secret import secret_env
    from headgate.cli.dev.plan import parse_only
    from headgate.cli.dev.screen import Screen
    from headgate.cli.dev.supervise import supervise

    options = _options(common, only=parse_only(only), env=secret_env(common["directory"]))
    screen = Screen()
    return supervise(options, screen, functools.partial(hints.stay_up, screen))


@_with_common
def demo(common: dict[str, Any], *, once: Once = False) -> int:
    """`headgate dev`, with one GitHub webhook's way through it: event, decision, run, the engine's answer."""
    from headgate.cli.dev import demo as demonstration
    from headgate.cli.dev.demo_secret import secret_env
    from headgate.cli.dev.screen import Screen
    from headgate.cli.dev.supervise import supervise

    options = _options(common, env=secret_env(common["directory"], create=True))
    screen = Screen()
    if once:
        body = functools.partial(demonstration.once, screen)
        return supervise(options, screen, body, start_seconds=demonstration.START_SECONDS)
    return supervise(options, screen, functools.partial(demonstration.stay, screen))


def _options(common: dict[str, Any], **own: Any) -> Options:
    from headgate.cli.dev.plan import Options, parse_scale

    return Options(**{**common, "scale": parse_scale(common["scale"])}, **own)


def _exit(run: Callable[[], int]) -> None:
    """An error of ours, or of the disk, is a sentence on stderr and exit code 1."""
    try:
        code = run()
    except HeadgateError as problem:
        typer.echo(f"headgate: {problem}", err=True)
        code = 1
    except OSError as problem:
        typer.echo(f"headgate: {problem}", err=True)
        code = 1
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)

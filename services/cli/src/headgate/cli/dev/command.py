"""The commands `headgate dev` and `headgate demo`: their options, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headgate.common.errors import HeadgateError

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
    str, typer.Option(envvar="HEADGATE_KAFKA__PREFIX", help="First part of the topics' names.")
]
Bootstrap = Annotated[
    str | None, typer.Option(envvar="HEADGATE_KAFKA__BOOTSTRAP", help="Use this Kafka; start none.")
]
RegistryUrl = Annotated[
    str | None, typer.Option(envvar="HEADGATE_REGISTRY__URL", help="Use this Schema Registry; start none.")
]
Only = Annotated[
    str | None, typer.Option(envvar="HEADGATE_DEV_ONLY", help="Only these services: webhook,processor")
]
Scale = Annotated[
    str | None, typer.Option(envvar="HEADGATE_DEV_SCALE", help="Replicas: processor=2,runner=2")
]
Reset = Annotated[bool, typer.Option("--reset", help="Delete the data of earlier runs first.")]
Once = Annotated[
    bool, typer.Option("--once", help="Stop after the timeline; exit 1 if it was not as promised.")
]


def dev(
    directory: Directory = Path(".headgate"),
    kafka_port: KafkaPort = 9092,
    registry_port: RegistryPort = 8085,
    webhook_port: WebhookPort = 8081,
    health_port: HealthPort = 9100,
    prefix: Prefix = "headgate",
    bootstrap: Bootstrap = None,
    registry: RegistryUrl = None,
    only: Only = None,
    scale: Scale = None,
    reset: Reset = False,
) -> None:
    """Run all of Headgate here: a real Kafka, a real Schema Registry and every service, until Ctrl-C."""
    from headgate.cli.dev import hints
    from headgate.cli.dev.demo_secret import secret_env
    from headgate.cli.dev.plan import Options, parse_only, parse_scale
    from headgate.cli.dev.screen import Screen
    from headgate.cli.dev.supervise import supervise

    def run() -> int:
        options = Options(
            directory=directory,
            kafka_port=kafka_port,
            registry_port=registry_port,
            webhook_port=webhook_port,
            health_port=health_port,
            prefix=prefix,
            bootstrap=bootstrap,
            registry=registry,
            only=parse_only(only),
            scale=parse_scale(scale),
            reset=reset,
            env=secret_env(directory),
        )
        screen = Screen()
        return supervise(options, screen, functools.partial(hints.stay_up, screen))

    _exit(run)


def demo(
    directory: Directory = Path(".headgate"),
    kafka_port: KafkaPort = 9092,
    registry_port: RegistryPort = 8085,
    webhook_port: WebhookPort = 8081,
    health_port: HealthPort = 9100,
    prefix: Prefix = "headgate",
    bootstrap: Bootstrap = None,
    registry: RegistryUrl = None,
    scale: Scale = None,
    reset: Reset = False,
    once: Once = False,
) -> None:
    """`headgate dev`, with one GitHub webhook's way through it: event, decision, run, the engine's answer."""
    from headgate.cli.dev import demo as demonstration
    from headgate.cli.dev.demo_secret import secret_env
    from headgate.cli.dev.plan import Options, parse_scale
    from headgate.cli.dev.screen import Screen
    from headgate.cli.dev.supervise import supervise

    def run() -> int:
        options = Options(
            directory=directory,
            kafka_port=kafka_port,
            registry_port=registry_port,
            webhook_port=webhook_port,
            health_port=health_port,
            prefix=prefix,
            bootstrap=bootstrap,
            registry=registry,
            scale=parse_scale(scale),
            reset=reset,
            env=secret_env(directory, create=True),
        )
        screen = Screen()
        if once:
            body = functools.partial(demonstration.once, screen)
            return supervise(options, screen, body, start_seconds=demonstration.START_SECONDS)
        return supervise(options, screen, functools.partial(demonstration.stay, screen))

    _exit(run)


def _exit(run: Callable[[], int]) -> None:
    """An error of ours is a sentence on stderr and exit code 1."""
    try:
        code = run()
    except HeadgateError as problem:
        typer.echo(f"headgate: {problem}", err=True)
        code = 1
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)

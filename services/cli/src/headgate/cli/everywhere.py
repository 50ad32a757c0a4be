"""Options that every command takes, before or after its name, and the one place where errors become exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headgate.common.errors import HeadgateError

from . import exits
from .session import Format, Session

PANEL = "Options of every command"

Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to print data; table unless said.", rich_help_panel=PANEL),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(help="Kafka, host:port[,...] (env HEADGATE_KAFKA__BOOTSTRAP).", rich_help_panel=PANEL),
]
Registry = Annotated[
    str | None, typer.Option(help="Schema Registry URL (env HEADGATE_REGISTRY__URL).", rich_help_panel=PANEL)
]
Prefix = Annotated[
    str | None,
    typer.Option(help="First part of the topics' names (env HEADGATE_KAFKA__PREFIX).", rich_help_panel=PANEL),
]
Verbose = Annotated[
    bool | None,
    typer.Option("--verbose", "-v", help="Say more on stderr.", rich_help_panel=PANEL, show_default=False),
]

OPTIONS = {
    "output": Output,
    "bootstrap": Bootstrap,
    "registry": Registry,
    "prefix": Prefix,
    "verbose": Verbose,
}
PARAMETERS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    for name, annotation in OPTIONS.items()
]

Run = Callable[..., None]


def command(app: typer.Typer, name: str | None = None, **extra: Any) -> Callable[[Run], Run]:
    """Registers `func(session, ...)` as a command: it gains the options above and loses its exceptions."""

    def register(func: Run) -> Run:
        signature = inspect.signature(func, eval_str=True)
        own = [parameter for key, parameter in signature.parameters.items() if key != "session"]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

        def run(**given: Any) -> None:
            session = session_of(given.pop("ctx"), {key: given.pop(key) for key in OPTIONS})
            guarded(session, functools.partial(func, session, **given))

        parameters = [context, *own, *PARAMETERS]
        run.__name__, run.__doc__ = func.__name__, func.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        app.command(name, **extra)(run)
        return func

    return register


def session_of(ctx: typer.Context, given: dict[str, Any]) -> Session:
    """The session of this invocation; what stands after the command's name wins."""
    session = ctx.ensure_object(Session)
    for key, value in given.items():
        if value is not None:
            setattr(session, key, value)
    return session


def guarded(session: Session, run: Callable[[], None]) -> None:
    """Runs a command; an error of ours is its sentence on stderr and its exit code."""
    try:
        run()
    except HeadgateError as error:
        session.say(str(error), "red" if session.err.is_terminal else "")
        raise typer.Exit(exits.code_of(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(exits.INTERRUPTED) from None
    except BrokenPipeError:
        raise typer.Exit(exits.OK) from None
    finally:
        session.close()

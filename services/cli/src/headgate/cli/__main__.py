"""The `headgate` command: what there is, and where each part lives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import typer

from . import exits
from .commands import apply, dlq, doctor, events, kinds, runs, topics, why
from .everywhere import Bootstrap, Output, Prefix, Registry, Verbose, session_of

EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in exits.MEANING.items()) + "."

LAZY = {
    "dev": "A real Kafka, a real registry and every service on this machine, until Ctrl-C.",
    "demo": "headgate dev with example triggers, and one webhook's way through it.",
}
"""Commands whose module is imported only when they are called: the supervisor needs a lot, --help nothing."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The whole command line; `arguments` say which lazy command is about to run."""
    app = typer.Typer(
        name="headgate",
        help="Turns events from elsewhere into workflow runs. Data goes to stdout, messages to stderr.",
        epilog=EPILOG,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )

    @app.callback()
    def everywhere(
        ctx: typer.Context,
        output: Output = None,
        bootstrap: Bootstrap = None,
        registry: Registry = None,
        prefix: Prefix = None,
        verbose: Verbose = None,
    ) -> None:
        given: dict[str, Any] = {"output": output, "bootstrap": bootstrap, "registry": registry}
        session_of(ctx, {**given, "prefix": prefix, "verbose": verbose})

    for name, summary in LAZY.items():
        _lazy(app, name, summary, arguments)
    apply.register(app)
    kinds.register(app)
    events.register(app)
    why.register(app)
    runs.register(app)
    dlq.register(app)
    topics.register(app)
    doctor.register(app)
    return app


def _lazy(app: typer.Typer, name: str, summary: str, arguments: Sequence[str]) -> None:
    if name in arguments:
        module = importlib.import_module("headgate.cli.dev.command")
        app.command(name, help=summary, rich_help_panel="On this machine")(getattr(module, name))
        return

    def placeholder() -> None:
        raise AssertionError("replaced by the real command when its name is among the arguments")

    app.command(name, help=summary, rich_help_panel="On this machine")(placeholder)


def main() -> None:
    build(sys.argv[1:])()


if __name__ == "__main__":
    main()

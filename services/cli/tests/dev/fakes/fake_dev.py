"""`headgate dev` with fake services and nothing to install: what is tested is the supervising."""

import dataclasses
import os

import typer

from headgate.cli.dev import command, plan, stack
from headgate.common.errors import Unreachable

plan.KINDS = tuple(dataclasses.replace(kind, module="fake_service") for kind in plan.KINDS)


def install(_: stack.Stack) -> str:
    if reason := os.environ.get("FAKE_UNREACHABLE"):
        raise Unreachable(reason)
    return "nothing to install"


stack.Stack._install_once = install  # type: ignore[method-assign]
stack.SERVICE_STOP_SECONDS = 1.0
if "FAKE_START_SECONDS" in os.environ:
    start = stack.Stack.start
    stack.Stack.start = lambda self, seconds=None: start(  # type: ignore[method-assign]
        self, float(os.environ["FAKE_START_SECONDS"])
    )

if __name__ == "__main__":
    typer.run(command.dev)

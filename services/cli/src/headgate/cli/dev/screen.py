"""What `headgate dev` says: who, and what about it, a line each."""

from __future__ import annotations

from contextlib import suppress

from rich.console import Console
from rich.text import Text

NAME_WIDTH = 16


class Screen:
    """A terminal that was closed takes no more lines (EIO); stopping and keeping go on without it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)

    def say(self, who: str, what: str) -> None:
        self._print(Text.assemble((f"{who:<{NAME_WIDTH}}", _style(what)), " ", what))

    def line(self, text: str = "") -> None:
        self._print(Text(text))

    def _print(self, text: Text) -> None:
        with suppress(OSError):
            self.console.print(text)


def _style(what: str) -> str:
    if what.startswith("ready"):
        return "green"
    return "red" if "starting again" in what or "not ready" in what else "bold"

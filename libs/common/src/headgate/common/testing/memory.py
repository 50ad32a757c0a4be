"""Publication and positions in memory, that can crash between any two steps: before or after each effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headgate.common.sources.position import Position
from headgate.common.sources.provider import Cursor, Event, Page


class Crash(BaseException):
    """kill -9, as far as a coroutine can tell: no `except Exception` sees it."""


@dataclass
class Memory:
    """A broker for one source. `crash_at` counts effects' edges from 0: before and after each publish and
    save; None never crashes."""

    crash_at: int | None = None
    published: list[Event] = field(default_factory=list)
    bad: list[object] = field(default_factory=list)
    saved: Position | None = None
    edges: int = 0

    def _edge(self) -> None:
        if self.edges == self.crash_at:
            raise Crash
        self.edges += 1

    async def publish(self, page: Page[Cursor]) -> None:
        self._edge()
        self.published += page.events
        self.bad += [item.item for item in page.bad]
        self._edge()

    async def save(self, position: Position) -> Position:
        self._edge()
        self.saved = replace(position)
        self._edge()
        return position

    @property
    def keys(self) -> list[str]:
        return [event.key for event in self.published]

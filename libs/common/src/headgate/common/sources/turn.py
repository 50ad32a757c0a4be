"""One turn of a source: page after page until the provider has no more. The order of the three
steps is the guarantee: publish, then remember, then save. A crash repeats events, never loses one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from headgate.common.errors import Transient
from headgate.common.failpoints import failpoint
from headgate.common.sources.position import Position, advance, unseen
from headgate.common.sources.provider import Cursor, Page


class Shape(Protocol):
    """What the runtime needs of an opened source, whether it polls or follows a calendar."""

    provider: str
    cursor: type[Cursor]
    overlap: timedelta

    async def now(self) -> datetime:
        """The clock this source starts by: the provider's own where it has one."""

    async def page(self, cursor: Cursor) -> Page[Cursor]:
        """What follows the cursor."""

    def pause_seconds(self, position: Position, turn_took: float) -> float:
        """How long to wait before the next turn."""

    async def close(self) -> None:
        """Let go of connections."""


Publish = Callable[[Page[Cursor]], Awaitable[None]]
"""Returns when the broker has acknowledged every event and every bad item of the page."""
Save = Callable[[Position], Awaitable[Position]]
"""Returns when the broker has acknowledged the position."""


async def take_turn(shape: Shape, position: Position, publish: Publish, save: Save) -> Position:
    """Read to the end of what there is. Each page is durable before the position passes it."""
    cursor = position.cursor.rewound(shape.overlap)
    asked = {cursor.place}
    while True:
        page = await shape.page(cursor)
        if page.more and page.next.place in asked:
            raise Transient(
                f"{shape.provider} answered with a page that leads back to one already read; the turn "
                f"ends here and nothing is skipped. Check the paging settings of this source."
            )
        failpoint("source.fetched-before-publish")
        await publish(unseen(position, page))
        failpoint("source.published-before-save")
        before, position = position, advance(position, page, shape.overlap)
        if position != before:
            position = await save(position)
        failpoint("source.saved")
        if not page.more:
            return position
        cursor = page.next
        asked.add(cursor.place)

"""A poller that saves its position before the events of the page are stored."""

import runpy

from headgate.common.sources import follower
from headgate.common.sources.position import Position, advance, unseen
from headgate.common.sources.turn import Publish, Save, Shape


async def ahead(shape: Shape, position: Position, publish: Publish, save: Save) -> Position:
    """As `take_turn`, the last two steps exchanged."""
    cursor = position.cursor.rewound(shape.overlap)
    while True:
        page = await shape.page(cursor)
        fresh = unseen(position, page)
        position = await save(advance(position, page, shape.overlap))
        await publish(fresh)
        if not page.more:
            return position
        cursor = page.next


follower.take_turn = ahead  # type: ignore[attr-defined]
runpy.run_module("headgate.poller", run_name="__main__")

"""One source over time: what is saved when, what an error does, how long it waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest

from headgate.common.errors import AuthRejected, CursorExpired, RateLimited, Transient, Unreachable
from headgate.common.model import Source as Document
from headgate.common.sources.follower import Follower
from headgate.common.sources.position import Position, Stored
from headgate.common.sources.provider import Cursor, Event, Page
from headgate.common.testing.clocks import FixedClock

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
SKEW = timedelta(minutes=5)


class Count(Cursor):
    since: datetime
    number: int = 0

    @classmethod
    def start(cls, at: datetime) -> Self:
        return cls(since=at)


class Script:
    """A shape that plays a list: an exception is raised, a number is how many events a page has."""

    provider = "scripted"
    cursor: type[Cursor] = Count
    overlap = timedelta(0)

    def __init__(self, clock: FixedClock, steps: list[Exception | int], done: asyncio.Event) -> None:
        self.clock, self.steps, self.done = clock, steps, done
        self.asked: list[Count] = []
        self.closed = False

    async def now(self) -> datetime:
        return self.clock.now() - SKEW

    async def page(self, cursor: Cursor) -> Page[Cursor]:
        assert isinstance(cursor, Count)
        self.asked.append(cursor)
        if not self.steps:
            self.done.set()
            await asyncio.Event().wait()
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        events = [Event(key=f"{cursor.number + n}", type="t", data={}) for n in range(step)]
        return Page(events=events, next=Count(since=cursor.since, number=cursor.number + step))

    def pause_seconds(self, position: Position, turn_took: float) -> float:
        return 60.0

    async def close(self) -> None:
        self.closed = True


class World:
    """A follower with everything around it in memory."""

    def __init__(self, *steps: Exception | int, stored: Stored | None = None, **spec: Any) -> None:
        self.clock = FixedClock(NOON)
        self.published: list[str] = []
        self.stored: list[Stored] = []
        self.broken: list[Exception] = []
        self._steps, self._before, self._spec = list(steps), stored, spec

    providers = frozenset({"scripted"})

    def open(self, source: Document) -> Script:
        self.opened.append(self.shape)
        return self.shape

    async def publish(self, source: Document, page: Page[Cursor]) -> None:
        if self.broken:
            raise self.broken.pop(0)
        self.published += [event.key for event in page.events]

    async def store(self, source: Document, stored: Stored) -> None:
        self.stored.append(stored)

    async def run(self) -> World:
        done = asyncio.Event()
        self.opened: list[Script] = []
        self.shape = Script(self.clock, self._steps, done)
        document = Document.model_validate({"metadata": {"name": "s"}, "provider": "scripted", **self._spec})
        follower = Follower(document, self, self._before, self.publish, self.store, self.clock)
        task = asyncio.create_task(follower.follow())
        async with asyncio.timeout(10):
            await done.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert self.shape.closed
        return self


def cursor(stored: Stored) -> Count:
    return Count.model_validate_json(stored.cursor)


def stored(number: int, age: timedelta = timedelta(0)) -> Stored:
    return Stored("scripted", Count(since=NOON, number=number).model_dump_json(), ("k",), NOON - age)


async def test_the_beginning_is_saved_before_anything_is_asked_and_by_the_provider_s_clock() -> None:
    world = await World(Transient("x"), 2).run()
    assert cursor(world.stored[0]).since == NOON - SKEW
    assert cursor(world.stored[0]).number == 0
    assert world.shape.asked[0].since == NOON - SKEW
    assert world.published == ["0", "1"]


async def test_a_backfill_begins_in_the_past_once() -> None:
    world = await World(1, 1, startup={"backfill": "4h"}).run()
    assert {cursor(one).since for one in world.stored} == {NOON - SKEW - timedelta(hours=4)}
    again = await World(1, stored=world.stored[-1], startup={"backfill": "4h"}).run()
    assert again.published == ["2"]


async def test_a_stored_position_is_where_reading_goes_on() -> None:
    world = await World(2, stored=stored(7)).run()
    assert world.published == ["7", "8"]
    assert cursor(world.stored[-1]).number == 9


async def test_events_that_were_not_acknowledged_do_not_move_the_position() -> None:
    world = World(2, 2, stored=stored(7))
    world.broken = [Unreachable("no broker")]
    await world.run()
    assert [one.number for one in world.shape.asked[:2]] == [7, 7]
    assert world.published == ["7", "8"]


@pytest.mark.parametrize(
    ("error", "least", "most"),
    [
        (RateLimited("x", 7.0), 7.0, 7.7),
        (RateLimited("x", 315_360_000.0), 3_600, 3_960),
        (RateLimited("x"), 0.5, 1),
        (Transient("x"), 0.5, 1),
        (AuthRejected("x"), 900, 990),
        (KeyError("a bug in a provider"), 0.5, 1),
    ],
)
async def test_an_error_changes_the_pause_only(error: Exception, least: float, most: float) -> None:
    world = await World(1, error, 1, stored=stored(0)).run()
    assert world.published == ["0", "1"]
    pause = world.clock.slept[1]
    assert least <= pause <= most


async def test_a_good_turn_forgets_the_failures_before_it() -> None:
    bad: list[Exception | int] = [Transient("x")] * 6
    world = await World(*bad, 1, Transient("x"), 1, stored=stored(0)).run()
    assert world.clock.slept[5] > 8
    assert world.clock.slept[7] <= 1


async def test_a_forgotten_token_begins_anew() -> None:
    world = await World(1, CursorExpired("410"), 1, stored=stored(5)).run()
    assert [one.number for one in world.shape.asked[:3]] == [5, 6, 0]


async def test_ignore_historical_goes_on_after_a_takeover_and_skips_a_long_pause() -> None:
    mode = {"startup": "ignore_historical"}
    short = await World(1, stored=stored(5, timedelta(seconds=20)), **mode).run()
    assert short.published == ["5"]
    long = await World(1, stored=stored(5, timedelta(hours=1)), **mode).run()
    assert cursor(long.stored[0]).since == NOON - SKEW


async def test_ignore_historical_confirms_its_position_while_the_provider_is_quiet() -> None:
    world = await World(*[0] * 30, stored=stored(5), startup="ignore_historical").run()
    ages = [
        later.saved_at - earlier.saved_at
        for earlier, later in zip(world.stored, world.stored[1:], strict=False)
    ]
    assert len(world.stored) > 5
    assert max(ages) < timedelta(minutes=10)


async def test_a_quiet_provider_costs_no_records() -> None:
    assert (await World(*[0] * 30, stored=stored(5)).run()).stored == []


async def test_a_position_of_another_provider_is_not_taken() -> None:
    other = Stored("jira", "{}", (), NOON)
    world = await World(1, stored=other).run()
    assert cursor(world.stored[0]).since == NOON - SKEW

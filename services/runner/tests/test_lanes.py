from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from headgate.common.headers import Headers
from headgate.runner.lanes import Job, Lane, Lanes, Worker
from headgate.runner.settings import RunnerOptions
from headgate.runner.slots import Slots
from headgate.runner.triggers import Gone, newest
from headgate.runner.watchdog import stalled


class Desk:
    """Lanes with a handler that waits for permission, and a record of what Kafka would be told."""

    def __init__(self, **options: Any) -> None:
        self.handled: list[int] = []
        self.running: set[int] = set()
        self.may: dict[int, asyncio.Event] = {}
        self.told: list[tuple[str, int]] = []
        self.marks: list[int] = []
        self.lanes = Lanes(
            RunnerOptions(**options),
            self.handle,
            pause=lambda number: self.told.append(("pause", number)),
            resume=lambda number: self.told.append(("resume", number)),
            commit=lambda _, mark: self.marks.append(mark),
        )
        self.lanes.assign([0])

    async def handle(self, job: Job) -> None:
        self.running.add(job.offset)
        await self.may.setdefault(job.offset, asyncio.Event()).wait()
        self.running.discard(job.offset)
        self.handled.append(job.offset)

    def take(self, *offsets: int, key: bytes | None = None, value: bytes = b"v") -> None:
        headers: Any = Headers()
        for offset in offsets:
            self.lanes.take(Job("t", 0, offset, key, value, headers, self.lanes.lanes[0]))

    async def allow(self, *offsets: int) -> None:
        for offset in offsets:
            self.may.setdefault(offset, asyncio.Event()).set()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_one_key_goes_one_by_one_and_others_at_once() -> None:
    desk = Desk()
    desk.take(0, 1, key=b"a")
    desk.take(2, key=b"b")
    desk.take(3, 4)
    await asyncio.sleep(0)
    assert desk.running == {0, 2, 3, 4}
    await desk.allow(0)
    assert desk.running == {1, 2, 3, 4}


async def test_the_mark_waits_for_the_first_unfinished_record() -> None:
    desk = Desk()
    desk.take(10, 11, 12)
    await desk.allow(11, 12)
    assert desk.marks == []
    await desk.allow(10)
    assert desk.marks == [13]


async def test_a_refused_commit_is_asked_for_again_though_no_record_comes() -> None:
    desk = Desk()
    desk.take(10, 11)
    await desk.allow(10, 11)
    desk.marks.clear()
    desk.lanes.commit_again()
    assert desk.marks == [12]
    await desk.lanes.release([0], 0.1)
    desk.lanes.commit_again()
    assert desk.marks == [12]


async def test_a_full_lane_is_paused_and_resumed_at_half() -> None:
    desk = Desk(held_per_partition=4)
    desk.take(0, 1, 2)
    assert desk.told == []
    desk.take(3, 4)
    assert desk.told == [("pause", 0)]
    await desk.allow(0, 1)
    assert desk.told == [("pause", 0)]
    await desk.allow(2)
    assert desk.told == [("pause", 0), ("resume", 0)]


async def test_bytes_count_as_well_as_records() -> None:
    desk = Desk(held_bytes_per_partition=2000)
    desk.take(0, value=b"x" * 3000)
    assert desk.told == [("pause", 0)]


async def test_one_stuck_record_cannot_make_what_is_remembered_grow_without_end() -> None:
    desk = Desk(held_per_partition=4)
    desk.take(0)
    for offset in range(1, 40):
        desk.take(offset)
        await desk.allow(offset)
    assert desk.lanes.lanes[0].paused
    await desk.allow(0)
    assert not desk.lanes.lanes[0].paused


async def test_release_ends_what_waits_lets_calls_finish_and_tells_the_mark() -> None:
    desk = Desk()
    waiting = asyncio.Event()

    async def handle(job: Job) -> None:
        if job.offset == 1:
            with job.lane.idle(job):
                await waiting.wait()
        else:
            await Desk.handle(desk, job)

    desk.lanes._handle = handle
    desk.take(0, 1)
    desk.take(2, 3, key=b"k")
    lane = desk.lanes.lanes[0]
    await asyncio.sleep(0)
    release = asyncio.create_task(desk.lanes.release([0], 30))
    await desk.allow(0, 2)
    assert await release == {0: 1}
    assert desk.handled == [0, 2]
    assert not desk.running, "a queued record was started after the release began"
    assert lane.closed
    assert not lane.workers


async def test_release_does_not_wait_longer_than_its_grace() -> None:
    desk = Desk()
    desk.take(0)
    await asyncio.sleep(0)
    assert await desk.lanes.release([0], 0.01) == {0: 0}


async def test_a_record_that_cannot_be_ended_is_reported_and_never_marked() -> None:
    desk = Desk()

    async def broken(_: Job) -> None:
        raise OSError("no way out")

    desk.lanes._handle = broken
    desk.take(0, 1)
    with pytest.raises(OSError, match="no way out"):
        await desk.lanes.failed
    assert desk.marks == []


async def test_random_work_finishes_everything_and_marks_only_forward() -> None:
    desk = Desk(held_per_partition=16)
    chance = random.Random(7)
    offset, finished = 0, set()
    for _ in range(600):
        if chance.random() < 0.5 and not desk.lanes.lanes[0].paused:
            desk.take(offset, key=chance.choice([b"a", b"b", None]))
            offset += 1
        elif offset:
            number = chance.randrange(offset)
            finished.add(number)
            await desk.allow(number)
        unfinished = set(range(offset)) - set(desk.handled)
        if desk.marks:
            assert desk.marks[-1] <= min(unfinished, default=offset)
    await desk.allow(*range(offset))
    for _ in range(offset):
        await asyncio.sleep(0)
    assert sorted(desk.handled) == list(range(offset))
    assert desk.marks == sorted(set(desk.marks))
    assert desk.marks[-1] == offset
    assert desk.lanes.lanes[0].held == desk.lanes.lanes[0].bytes == 0


async def test_slots_bound_all_calls_and_those_of_one_trigger() -> None:
    slots, lane = Slots(total=3, per_trigger=2), Lane(0)
    most: dict[str, int] = {"a": 0, "b": 0}
    now: dict[str, int] = {"a": 0, "b": 0}
    most_of_all = 0

    async def call(trigger: str, number: int) -> None:
        nonlocal most_of_all
        async with slots.one(trigger, Job("t", 0, number, None, b"", [], lane)):
            now[trigger] += 1
            most[trigger] = max(most[trigger], now[trigger])
            most_of_all = max(most_of_all, slots.running)
            await asyncio.sleep(0)
            now[trigger] -= 1

    await asyncio.gather(*(call("ab"[number % 2], number) for number in range(40)))
    assert most == {"a": 2, "b": 2}
    assert most_of_all == 3
    assert slots.running == 0
    assert not slots._triggers
    assert lane.waiting_for_slot == 0


def lane(*, held: int = 0, still: float = 0.0, workers: int = 1, waiting: int = 0, mark: int = 5) -> Lane:
    made = Lane(3)
    made.water.take(mark - 1)
    made.water.finish(mark - 1)
    made.held, made.waiting_for_slot = held, waiting
    made.workers = {number: Worker() for number in range(workers)}
    made.moved_at = made.taken_at = 1000 - still
    return made


@pytest.mark.parametrize(
    ("one", "ends", "beat_at", "stuck"),
    [
        (lane(held=3, still=50), {}, 1000, None),
        (lane(held=3, still=200), {}, 1000, "3 records in hand and none moved for 200 s"),
        (lane(held=3, still=200, waiting=1), {}, 1000, None),
        (lane(still=200), {3: 5}, 1000, None),
        (lane(still=200), {3: 9}, 1000, "4 records wait and none came for 200 s"),
        (lane(still=20), {3: 9}, 1000, None),
        (lane(), {}, 700, "the Kafka thread has not come round for 300 s"),
    ],
)
def test_only_what_nothing_will_end_is_a_stall(
    one: Lane, ends: dict[int, int], beat_at: float, stuck: str | None
) -> None:
    found = stalled([one], ends, now=1000, beat_at=beat_at, stall_seconds=100)
    assert (found or "").endswith(stuck or "")
    assert bool(found) == bool(stuck)


class Known:
    """A view of triggers that says when it was last read to its end."""

    def __init__(self) -> None:
        self.triggers: dict[str, Any] = {}
        self.fresh_at = float("-inf")

    def get(self, name: str) -> Any:
        return self.triggers.get(name)

    def fresh(self, now: float | None = None) -> bool:
        return (time.monotonic() if now is None else now) - self.fresh_at <= 5


class Revision:
    def __init__(self, revision: int) -> None:
        self.revision = revision


async def test_a_trigger_is_gone_only_when_the_topic_was_read_after_the_record_came() -> None:
    known, since = Known(), time.monotonic()
    known.fresh_at = since - 1  # fresh by the clock, but from before the record
    waiting = asyncio.create_task(newest(known, "t", 1, since=since, wait_seconds=30))
    await asyncio.sleep(0.06)
    assert not waiting.done()
    known.triggers["t"] = Revision(1)
    assert (await waiting).revision == 1
    del known.triggers["t"]
    known.fresh_at = time.monotonic()
    with pytest.raises(Gone, match="trigger t was deleted; apply it again, then replay"):
        await newest(known, "t", 1, since=since, wait_seconds=30)


async def test_the_newest_revision_is_used_and_a_later_one_is_waited_for() -> None:
    known, since = Known(), time.monotonic()
    known.triggers["t"] = Revision(4)
    assert (await newest(known, "t", 2, since=since, wait_seconds=30)).revision == 4
    waiting = asyncio.create_task(newest(known, "t", 5, since=since, wait_seconds=30))
    await asyncio.sleep(0.06)
    assert not waiting.done()
    known.triggers["t"] = Revision(6)
    assert (await waiting).revision == 6


async def test_waiting_for_a_revision_ends_with_a_reason() -> None:
    known = Known()
    known.triggers["t"] = Revision(1)
    with pytest.raises(Gone, match="revision 2 or newer did not arrive"):
        await newest(known, "t", 2, since=time.monotonic(), wait_seconds=0.01)

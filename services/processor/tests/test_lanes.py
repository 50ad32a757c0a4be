"""Batches side by side: what may overlap, and what must not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.processor.lanes import Lanes


class Outlet:
    """Its flush takes until it is let through; what it stored goes to a log that all share."""

    def __init__(self, log: list[Any], slow: bool = False) -> None:
        self.log, self.pending = log, list[Any]()
        self.through = asyncio.Event()
        self.flushing = False
        if not slow:
            self.through.set()

    def send(self, topic: str, value: Any, key: Any, headers: Any = None, partition: Any = None) -> None:
        assert not self.flushing
        self.pending.append((partition, value))

    async def flush(self) -> None:
        self.flushing = True
        try:
            await self.through.wait()
            await asyncio.sleep(0)
            self.log += self.pending
            self.pending.clear()
        finally:
            self.flushing = False

    def settle(self) -> None: ...


async def write(lanes: Lanes, partition: int, *values: Any) -> None:
    async with lanes.lane(partition) as outlet:
        for value in values:
            outlet.send("t", value, None, None, partition)
            await asyncio.sleep(0)
        await outlet.flush()


async def breathe() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_another_partition_is_worked_on_while_one_is_stored() -> None:
    log: list[Any] = []
    quick, slow = Outlet(log), Outlet(log, slow=True)
    lanes = Lanes([quick, slow])
    first = asyncio.create_task(write(lanes, 0, "a"))
    await breathe()
    await asyncio.wait_for(write(lanes, 1, "b"), 5)
    assert log == [(1, "b")]
    slow.through.set()
    await first
    assert log == [(1, "b"), (0, "a")]


async def test_the_same_partition_waits_until_everything_is_stored() -> None:
    log: list[Any] = []
    quick, slow = Outlet(log), Outlet(log, slow=True)
    lanes = Lanes([quick, slow])
    both = [asyncio.create_task(write(lanes, 0, "a")), asyncio.create_task(write(lanes, 0, "b"))]
    await breathe()
    assert not quick.pending
    slow.through.set()
    await asyncio.gather(*both)
    assert log == [(0, "a"), (0, "b")]


@pytest.mark.parametrize("problem", [RuntimeError("planted"), asyncio.CancelledError()])
async def test_what_an_interrupted_lane_sent_is_stored_before_anything_else_is_sent(
    problem: BaseException,
) -> None:
    log: list[Any] = []
    lanes = Lanes([Outlet(log), Outlet(log)])

    async def interrupted() -> None:
        async with lanes.lane(0) as outlet:
            outlet.send("t", b"half", None, None, 0)
            raise problem

    with pytest.raises(type(problem)):
        await interrupted()
    async with lanes.lane(1):
        assert log == [(0, b"half")]
    await asyncio.gather(*(write(lanes, 0, number) for number in range(4)))
    assert log == [(0, b"half"), (0, 0), (0, 1), (0, 2), (0, 3)]


@settings(deadline=None)
@example([(0, False), (0, True), (1, False), (2, True), (2, True)], 3)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=25),
    st.integers(1, 3),
)
def test_each_partitions_records_are_stored_in_the_order_of_asking(
    jobs: list[tuple[int, bool]], outlets: int
) -> None:
    log: list[Any] = []

    async def job(lanes: Lanes, partition: int, number: int, fails: bool) -> None:
        async with lanes.lane(partition) as outlet:
            outlet.send("t", bytes((number,)), None, None, partition)
            await asyncio.sleep(0)
            if fails:
                raise RuntimeError("planted")
            await outlet.flush()

    async def all_of_them() -> None:
        lanes = Lanes([Outlet(log) for _ in range(outlets)])
        tasks = [
            asyncio.create_task(job(lanes, partition, number, fails))
            for number, (partition, fails) in enumerate(jobs)
        ]
        await asyncio.gather(*tasks, return_exceptions=True)
        await write(lanes, 0)

    asyncio.run(all_of_them())
    for partition in range(4):
        expected = [number for number, (where, _) in enumerate(jobs) if where == partition]
        assert [value[0] for where, value in log if where == partition] == expected

"""Records are kept for a moment only while much is under way, and each is told what became of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from headgate.common.gathering import Gathering
from headgate.common.producer import Producer, QueueFull


class MemoryProducer:
    def __init__(self) -> None:
        self.busy = False
        self.full = False
        self.taken: list[str] = []

    def hand_over(self, topic: str, key: str, value: bytes, headers: Any, told: Any) -> None:
        if self.full:
            raise QueueFull("full")
        self.taken.append(key)


def told(*_: object) -> None:
    return


def gathering(producer: MemoryProducer, seconds: float) -> Gathering:
    return Gathering(cast(Producer, producer), seconds)


async def test_nothing_waits_while_little_is_under_way() -> None:
    producer = MemoryProducer()
    gathering(producer, 60).hand_over("t", "a", b"", None, told)
    assert producer.taken == ["a"]


async def test_a_burst_is_handed_over_together_and_in_order() -> None:
    producer = MemoryProducer()
    outbox = gathering(producer, 0.01)
    producer.busy = True
    for _ in range(2):
        producer.taken.clear()
        for key in "abc":
            outbox.hand_over("t", key, b"", None, told)
        assert producer.taken == []
        async with asyncio.timeout(20):
            while not producer.taken:  # noqa: ASYNC110 what is waited for has no event of its own
                await asyncio.sleep(0.001)
        assert producer.taken == ["a", "b", "c"]


async def test_what_the_producer_refuses_after_all_is_told_and_the_others_go_on() -> None:
    producer, heard = MemoryProducer(), []
    outbox = gathering(producer, 60)
    producer.busy = producer.full = True
    for _ in range(3):
        outbox.hand_over("t", "a", b"", None, lambda error, _: heard.append(error))
    outbox.release()
    assert [type(one) for one in heard] == [QueueFull] * 3
    outbox.release()
    assert len(heard) == 3

"""The stage with nothing real around it: what strangers write must not end it, nor bend its rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headgate.common import avro, deadletter, fingerprints
from headgate.common.conditions import Condition
from headgate.common.model import Stored, Trigger
from headgate.common.topics import Topics
from headgate.processor.outputs import Encoder
from headgate.processor.records import Reader
from headgate.processor.stage import Stage
from headgate.processor.triggers import Listener, Triggers

TOPICS = Topics("t", partitions=1)


@dataclass
class Record:
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = TOPICS.raw
    partition: int = 0
    offset: int = 7
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None


@dataclass
class Batch:
    records: Sequence[Record]
    finished: bool = False

    def finish(self) -> None:
        self.finished = True


@dataclass
class Memory:
    """Table and outlet."""

    sent: list[tuple[str, bytes | None, Any]] = field(default_factory=list)
    values: dict[bytes, bytes | None] = field(default_factory=dict)

    def fetch(self, partition: int, key: bytes) -> bytes | None:
        return self.values.get(key)

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None:
        self.values[key] = value

    def commit(self, partition: int) -> None: ...

    def discard(self) -> None: ...

    def send(
        self, topic: str, value: bytes | None, key: Any, headers: Any = None, partition: int | None = None
    ) -> None:
        self.sent.append((topic, value, headers))

    async def flush(self) -> None: ...

    def settle(self) -> None: ...

    def on(self, topic: str) -> list[tuple[bytes | None, Any]]:
        return [(value, headers) for name, value, headers in self.sent if name == topic]


def listener(name: str, **fields: Any) -> Listener:
    spec = {"metadata": {"name": name}, "action": {"local": {}}, **fields}
    uid = fingerprints.uid("t", "trigger", name)
    return Listener.of(Stored(name, uid, 1, 0, "", Trigger.model_validate(spec)))


async def work(triggers: Triggers, *records: Record) -> Memory:
    memory = Memory()
    stage = Stage(
        TOPICS, Reader(7), Encoder(1, 2), memory, memory, lambda: triggers, lambda _: pytest.fail("asked")
    )
    batch = Batch(records)
    await stage.work([batch])
    assert batch.finished
    return memory


def outcomes(memory: Memory) -> list[tuple[str, list[tuple[str, str]]]]:
    """Reason and verdicts of each decision."""
    decisions = [
        avro.decode(avro.schema("Decision"), value or b"") for value, _ in memory.on(TOPICS.decisions)
    ]
    return [
        (one["reason"], [(verdict["trigger"], verdict["outcome"]) for verdict in one["verdicts"]])
        for one in decisions
    ]


SHOP = listener("shop", sources=[{"provider": "events", "match": {"source": "/shop*"}}])
ALL = listener("all", sources=[{"provider": "events"}])


async def test_a_strangers_header_makes_no_trigger_hear_what_it_does_not_listen_to() -> None:
    forged = [(deadletter.REPLAY_OF, b"x"), (deadletter.TRIGGER, b"shop")]
    memory = await work(Triggers([SHOP, ALL]), Record(b"{}", forged))
    assert outcomes(memory) == [
        ("a replay for trigger shop, which does not listen to source without a source", [])
    ]
    assert not memory.on(TOPICS.matched)


async def test_what_nobody_foresaw_in_a_record_is_a_dead_letter_and_the_next_one_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Reader.read

    def fails(self: Reader, value: bytes | None, *more: Any) -> Any:
        if value == b"1":
            raise ZeroDivisionError("who would have thought")
        return read(self, value, *more)

    monkeypatch.setattr(Reader, "read", fails)
    memory = await work(Triggers([ALL]), Record(b"1"), Record(b"2", offset=8))
    ((value, headers),) = memory.on(TOPICS.dlq)
    assert value == b"1"
    assert "ZeroDivisionError: who would have thought" in deadletter.read(headers).message
    assert outcomes(memory) == [("", [("all", "started")])]


async def test_what_nobody_foresaw_in_a_condition_costs_its_own_trigger_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: Condition, event: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(Condition, "evaluate", fails)
    odd = listener("odd", sources=[{"provider": "events"}], when="event.data == 1")
    memory = await work(Triggers([ALL, odd]), Record(b"1"))
    assert outcomes(memory) == [("", [("all", "started"), ("odd", "error")])]
    ((_, headers),) = memory.on(TOPICS.dlq)
    assert deadletter.read(headers).trigger == "odd"

"""The deterministic layer: an in-memory log, a processor that dies anywhere, and the guarantee.

The stage is the real one; Kafka is a dict whose records survive a crash only as far as they were delivered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.common import avro, fingerprints
from headgate.common.model import Stored, Trigger
from headgate.common.topics import Topics
from headgate.processor.outputs import Encoder
from headgate.processor.records import Reader
from headgate.processor.stage import Stage
from headgate.processor.triggers import Listener, Triggers

TOPICS = Topics("sim", partitions=1)
HOUR = 3_600_000


class Died(BaseException):
    """kill -9."""


@dataclass
class Record:
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass
class Part:
    """A batch: part of what is worked on in one go."""

    records: Sequence[Record]
    done: list[bool]

    def finish(self) -> None:
        self.done.append(True)


def batches(records: Sequence[Record], done: list[bool]) -> list[Part]:
    """In two where there is enough for two."""
    middle = len(records) // 2
    return [Part(part, done) for part in (records[:middle], records[middle:]) if part]


@dataclass
class Disk:
    """What outlives the process."""

    log: list[Record] = field(default_factory=list)
    committed: int = 0
    topics: dict[str, list[tuple[Any, bytes | None]]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Process:
    """What dies: the table, what was sent and is not delivered, where it reads."""

    disk: Disk
    table: dict[bytes, bytes] = field(default_factory=dict)
    staged: dict[bytes, bytes | None] = field(default_factory=dict)
    pending: list[tuple[str, Any, bytes | None]] = field(default_factory=list)
    position: int = 0
    dies_after_sends: int | None = None

    def recover(self) -> None:
        for key, value in self.disk.topics[TOPICS.fingerprints_changelog]:
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value
        self.position = self.disk.committed

    def fetch(self, partition: int, key: bytes) -> bytes | None:
        return self.staged[key] if key in self.staged else self.table.get(key)

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None:
        self.staged[key] = value

    def commit(self, partition: int) -> None:
        for key, value in self.staged.items():
            if value is not None:
                self.table[key] = value
        self.staged.clear()

    def discard(self) -> None:
        self.staged.clear()

    def send(
        self, topic: str, value: bytes | None, key: Any, headers: Any = None, partition: Any = None
    ) -> None:
        if self.dies_after_sends is not None:
            if self.dies_after_sends == 0:
                raise Died
            self.dies_after_sends -= 1
        self.pending.append((topic, key, value))

    def deliver(self, which: Any) -> None:
        for topic, key, value in self.pending:
            if which(topic):
                self.disk.topics[topic].append((key, value))
        self.pending.clear()

    async def flush(self) -> None:
        self.deliver(lambda _: True)

    def settle(self) -> None:
        self.deliver(lambda _: True)


def _listener(name: str, sources: list[str], window: str) -> Listener:
    spec = {
        "metadata": {"name": name},
        "sources": [{"source": source} for source in sources],
        "dedupe": {"window": window},
        "action": {"local": {}},
    }
    return Listener.of(
        Stored(name, fingerprints.uid("sim", "trigger", name), 1, 0, "", Trigger.model_validate(spec))
    )


LISTENERS = [
    _listener("both", ["a", "b"], "24h"),
    _listener("only-b", ["b"], "24h"),
    _listener("brief", ["a"], "1h"),
]


class NeverLostOncePerRun(RuleBasedStateMachine):
    """Deliver, repeat, work, die, commit, restart, in any order."""

    @initialize()
    def begin(self) -> None:
        self.disk = Disk()
        self.loop = asyncio.new_event_loop()
        self.clock = 1_000 * HOUR
        self.published = 0
        self.start()

    def start(self) -> None:
        self.process = Process(self.disk)
        self.process.recover()
        self.stage = Stage(
            topics=TOPICS,
            reader=Reader(1),
            encoder=Encoder(2, 3),
            table=self.process,
            outbox=self.process,
            triggers=lambda: Triggers(LISTENERS),
            fetch_schema=lambda number: None,
        )

    @rule(
        key=st.sampled_from("xyz"),
        source=st.sampled_from("ab"),
        hours=st.sampled_from([0, 0, 0, 0.4, 0.7, 2, 13, 25]),
    )
    def publish(self, key: str, source: str, hours: float) -> None:
        self.clock += int(hours * HOUR)
        self.published += 1
        event: dict[str, Any] = {
            "id": f"e{self.published}", "fingerprint": f"p/s:{key}", "source": source, "provider": "github-webhook",
            "type": "t", "subject": None, "occurred_at": 0, "received_at": 0, "data": "{}", "attributes": {},
        }  # fmt: skip
        value = avro.encode(avro.schema("RawEvent"), 1, event)
        offset = len(self.disk.log)
        self.disk.log.append(Record(TOPICS.raw, 0, offset, self.clock, event["fingerprint"].encode(), value))

    def batch(self, most: int) -> Sequence[Any]:
        return self.disk.log[self.process.position : self.process.position + most]

    @rule(most=st.integers(1, 5), commits=st.booleans())
    def work(self, most: int, commits: bool) -> None:
        records = self.batch(most)
        if records:
            done: list[bool] = []
            self.loop.run_until_complete(self.stage.work(batches(records, done)))
            assert done
            self.process.position += len(records)
        if commits:
            self.disk.committed = self.process.position

    @rule(most=st.integers(1, 5), sends=st.integers(0, 12), data=st.data())
    def die_at_work(self, most: int, sends: int, data: Any) -> None:
        records = self.batch(most)
        if records:
            self.process.dies_after_sends = sends
            done: list[bool] = []
            try:
                self.loop.run_until_complete(self.stage.work(batches(records, done)))
            except Died:
                assert not done
            # Each topic may or may not have been reached by what was sent before the end.
            self.process.deliver(lambda topic: data.draw(st.booleans(), label=topic))
        self.start()

    @rule()
    def die_idle(self) -> None:
        self.start()

    @precondition(lambda self: self.disk.committed > 0)
    @rule(back=st.integers(1, 4))
    def read_again(self, back: int) -> None:
        """A rebalance, or a zombie's lost commit: the next owner begins earlier."""
        self.disk.committed = max(0, self.disk.committed - back)
        self.start()

    def runs(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """(event id, run id) by trigger and fingerprint."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for _, value in self.disk.topics[TOPICS.matched]:
            one = avro.decode(avro.schema("MatchedEvent"), value or b"")
            found[one["trigger"], one["event"]["fingerprint"]].append((one["event"]["id"], one["run_id"]))
        return found

    def expected(self, upto: int) -> dict[tuple[str, str], list[str]]:
        """Which events count as new, by the definition and by nothing of the code: the first of the
        trigger's own sources, and again once its window has passed since the last that counted."""
        counted: dict[tuple[str, str], tuple[int, list[str]]] = {}
        for record in self.disk.log[:upto]:
            event = avro.decode(avro.schema("RawEvent"), record.value or b"")
            for listener in LISTENERS:
                if event["source"] not in listener.sources:
                    continue
                key = listener.name, event["fingerprint"]
                since, ids = counted.get(key, (-(10**15), []))
                if record.timestamp - since > listener.window_millis:
                    counted[key] = record.timestamp, [*ids, event["id"]]
        return {key: ids for key, (_, ids) in counted.items()}

    @invariant()
    def what_is_committed_is_not_lost(self) -> None:
        if not hasattr(self, "disk"):
            return
        runs = self.runs()
        for key, ids in self.expected(self.disk.committed).items():
            started = {event for event, _ in runs[key]}
            assert set(ids) <= started, f"lost: {key} wants {ids}, started {started}"

    @invariant()
    def a_trigger_and_a_fingerprint_have_one_run(self) -> None:
        if not hasattr(self, "disk"):
            return
        allowed = self.expected(len(self.disk.log))
        for (trigger, fingerprint), starts in self.runs().items():
            assert len({run for _, run in starts}) == 1
            assert {event for event, _ in starts} <= set(allowed[trigger, fingerprint])

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()


TestNeverLostOncePerRun = NeverLostOncePerRun.TestCase
TestNeverLostOncePerRun.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

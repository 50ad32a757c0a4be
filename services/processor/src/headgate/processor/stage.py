"""Stage 1: from a batch of records to everything that it causes, stored, and only then the batch finished.

The order within a batch carries the guarantees: table entries go to the changelog and outputs to their
topics, one flush waits for all of them, the local table takes the entries over, the batch is finished. A
crash between any two leaves the batch to be read again, and its events pass again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import structlog

from headgate.common import avro, deadletter, rekeying
from headgate.common.conditions import Activation, activation
from headgate.common.deadletter import Reason
from headgate.common.errors import HeadgateError, Poison, Undecodable, Unreachable
from headgate.common.failpoints import armed, failpoint
from headgate.common.fingerprints import partition_of
from headgate.common.headers import Headers, text
from headgate.common.rekeying import Original, original_of
from headgate.common.topics import Topics
from headgate.processor import metrics, sightings
from headgate.processor.decide import Verdict, claims, decide, judge
from headgate.processor.outputs import Encoder, letter
from headgate.processor.records import Incoming, NeedsSchema, Reader, refuse_bulk
from headgate.processor.sightings import Sighting, Sightings
from headgate.processor.triggers import Triggers, key_of

log = structlog.get_logger(__name__)

STAGE = "processor"
_YIELD_SECONDS = 0.02
_WAIT_SECONDS = (0.2, 5.0)
_OF_EVENTS = frozenset({"decided", "unheard", "rekeyed", "dead_lettered"})


class Record(Protocol):
    """A record as aiokafka reads it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Batch(Protocol):
    """Records of one partition, in order; `finish` allows their offsets to be committed."""

    records: Sequence[Record]

    def finish(self) -> None: ...


class Table(Protocol):
    """The fingerprint table."""

    def fetch(self, partition: int, key: bytes) -> bytes | None: ...

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None: ...

    def commit(self, partition: int) -> None: ...

    def discard(self) -> None: ...


class Outlet(Protocol):
    """Where records go: `send` many, `flush` once."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | str | None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None: ...

    async def flush(self) -> None: ...

    def settle(self) -> None:
        """What `flush` does, blocking: only fail points ask for it."""


class GivenUp(Exception):
    """The partition went away while a record had to wait: its batch stays unfinished for the next owner."""


@dataclass
class Stage:
    """What the agent does with each batch. One at a time: the table and the outbox belong to it."""

    topics: Topics
    reader: Reader
    encoder: Encoder
    table: Table
    outbox: Outlet
    triggers: Callable[[], Triggers]
    fetch_schema: Callable[[int], avro.Schema]
    """Asks the registry. Blocking."""
    waiting: Callable[[str | None], None] = lambda reason: None
    """Told what a record waits for, and None when it goes on."""

    def __post_init__(self) -> None:
        self.turn = asyncio.Lock()
        topics = self.topics
        self._codes = {topics.raw: 0, topics.rekeyed: 1}
        # The names are put together at each look: once is enough here.
        self._raw, self._matched, self._decisions = topics.raw, topics.matched, topics.decisions
        self._changelog, self._partitions = topics.fingerprints_changelog, topics.partitions
        self._settle_midway = armed("processor.table-before-output")
        self._begun: dict[tuple[int, int], int] = {}

    async def work(self, batches: Sequence[Batch], still_ours: Callable[[], bool] = lambda: True) -> None:
        """Handle some batches in one go. GivenUp: none was finished, and none must be."""
        async with self.turn:
            began = time.perf_counter()
            self.encoder.at(time.time_ns() // 1000)
            counts: Counter[str] = Counter()
            triggers = self.triggers()
            breathed = began
            partitions = {batch.records[0].partition for batch in batches}
            self._begun = self._where_they_begin(batches)
            for record in chain.from_iterable(batch.records for batch in batches):
                try:
                    self._handle(record, triggers, counts)
                except NeedsSchema as need:
                    await self._handle_once_readable(record, need, triggers, counts, still_ours)
                if time.perf_counter() - breathed > _YIELD_SECONDS:
                    await asyncio.sleep(0)
                    breathed = time.perf_counter()
            failpoint("processor.output-before-flush")
            await self.outbox.flush()
            failpoint("processor.flush-before-commit")
            for partition in partitions:
                self.table.commit(partition)
            for batch in batches:
                batch.finish()
            failpoint("processor.finished-before-commit")
            _count(counts, time.perf_counter() - began)

    async def sweep(self, partition: int, step: Callable[[], Sequence[bytes]]) -> None:
        """Forget what `step` names, between two batches."""
        async with self.turn:
            over = step()
            for key in over:
                self.outbox.send(self._changelog, None, key, None, partition)
            if over:
                await self.outbox.flush()
                self.table.commit(partition)

    def _where_they_begin(self, batches: Sequence[Batch]) -> dict[tuple[int, int], int]:
        begun: dict[tuple[int, int], int] = {}
        for batch in batches:
            one = batch.records[0]
            begun.setdefault((self._codes[one.topic], one.partition), one.offset)
        return begun

    def _settled(self, sighting: Sighting) -> bool:
        """Whether what came of it is stored: it is not of the batches at work."""
        begin = self._begun.get((sighting.topic, sighting.partition))
        return begin is None or sighting.offset < begin

    # -- one record -------------------------------------------------------------------------------------

    def _handle(self, record: Record, triggers: Triggers, counts: Counter[str]) -> None:
        """Decide, remember and send. Nothing is sent for a record before it is known to be readable."""
        try:
            incoming = self._read(record)
            event = incoming.event
            fingerprint: str = event["fingerprint"]
            key = fingerprint.encode()
            if not self._belongs_here(record, key):
                self._rekey(record, fingerprint)
                counts["rekeyed"] += 1
                return
            asked = activation(event, incoming.content())
            alone = text(record.headers, deadletter.TRIGGER) if _is_replay(record) else None
            if alone:
                verdicts, reason = self._judge_alone(alone, event, asked, triggers)
            else:
                verdicts, reason = self._decide(record, event, key, asked, triggers)
        except Poison as problem:
            self._bury(record, Reason(STAGE, problem.code, str(problem), exception=type(problem).__name__))
            counts["dead_lettered"] += 1
            return
        self._send(record, incoming, verdicts, reason)
        counts["decided" if verdicts else "unheard"] += 1
        for verdict in verdicts:
            counts[verdict.outcome] += 1

    def _read(self, record: Record) -> Incoming:
        """Whatever goes wrong with these bytes is theirs: read again they would fail again, for ever."""
        try:
            refuse_bulk(record.key, record.headers)
            return self.reader.read(
                record.value,
                record.headers,
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
            )
        except (HeadgateError, MemoryError):
            raise
        except Exception as problem:
            log.exception("A record failed in a way that nobody foresaw; it becomes a dead letter.")
            raise Undecodable(f"reading it failed: {type(problem).__name__}: {problem}") from problem

    def _belongs_here(self, record: Record, fingerprint: bytes) -> bool:
        """Only the raw topic has producers that may choose a partition of their own."""
        return record.topic != self._raw or partition_of(fingerprint, self._partitions) == record.partition

    def _rekey(self, record: Record, fingerprint: str) -> None:
        headers = rekeying.copy_headers(self._original(record))
        self.outbox.send(self.topics.rekeyed, record.value, fingerprint.encode(), headers)

    def _decide(
        self, record: Record, event: dict[str, Any], key: bytes, asked: Activation, triggers: Triggers
    ) -> tuple[Sequence[Verdict], str]:
        candidates = triggers.candidates(event["provider"], event["source"], event["type"])
        if not candidates:
            named = event["source"] or "without a source"
            return (), f"no trigger listens to source {named}"
        here = Sighting(
            key_of(event["provider"], event["source"]),
            self._codes[record.topic],
            record.partition,
            record.offset,
            record.timestamp,
        )
        stored = self.table.fetch(record.partition, key)
        seen: Sightings = () if stored is None else sightings.decode(stored)
        remembered = sightings.remember(seen, here, candidates, self._settled)
        now_seen = seen if remembered is None else remembered
        verdicts = decide(event["fingerprint"], here, now_seen, candidates, asked)
        if remembered is not None and claims(verdicts):
            value = sightings.encode(remembered)
            self.table.stage(record.partition, key, value)
            self.outbox.send(self._changelog, value, key, None, record.partition)
            if self._settle_midway:
                self.outbox.settle()
                failpoint("processor.table-before-output")
        return verdicts, ""

    def _judge_alone(
        self, name: str, event: dict[str, Any], asked: Activation, triggers: Triggers
    ) -> tuple[Sequence[Verdict], str]:
        """The replay of what failed for one trigger: for that one alone, and whatever the table says. Its
        run id is what it always was, so twice is harmless. A header makes no trigger hear another's source."""
        trigger = triggers.get(name)
        if trigger is None:
            return (), f"a replay for trigger {name}, which does not exist any more"
        if trigger not in triggers.candidates(event["provider"], event["source"], event["type"]):
            named = event["source"] or "without a source"
            return (), f"a replay for trigger {name}, which does not listen to source {named}"
        return [judge(trigger, event["fingerprint"], asked)], ""

    def _send(self, record: Record, incoming: Incoming, verdicts: Sequence[Verdict], reason: str) -> None:
        event = incoming.event
        headers: Headers | None = None
        for verdict in verdicts:
            if verdict.outcome == "started":
                headers = headers or self.encoder.event_headers(incoming, record.headers)
                key = verdict.order_key and f"{verdict.trigger.name}/{verdict.order_key}"
                self.outbox.send(
                    self._matched,
                    self.encoder.matched(incoming, verdict),
                    key or verdict.run_id,
                    headers,
                )
            elif verdict.outcome == "error":
                self._bury(
                    record,
                    Reason(
                        STAGE,
                        "condition-error",
                        verdict.reason,
                        next=f"fix the condition of trigger {verdict.trigger.name}, then: headgate dlq replay",
                        exception="ConditionError",
                        trigger=verdict.trigger.name,
                        fingerprint=event["fingerprint"],
                        event_id=event["id"],
                    ),
                )
        place = record.topic, record.partition, record.offset
        self.outbox.send(
            self._decisions,
            self.encoder.decision(event, place, verdicts, reason),
            event["id"],
            self.encoder.decision_headers(event["id"], record.headers),
        )

    def _bury(self, record: Record, reason: Reason) -> None:
        """To the dead-letter topic: key, bytes and headers as their producer wrote them, and why."""
        original = self._original(record)
        reason = replace(
            reason,
            topic=original.topic,
            partition=original.partition,
            offset=original.offset,
            attempt=deadletter.attempt_of(original.headers),
        )
        value, key, headers = letter(reason, record.value, original, time.time_ns() // 1000)
        self.outbox.send(self.topics.dlq, value, key, headers)

    def _original(self, record: Record) -> Original:
        """What its producer wrote. Only our copies are believed when they say where they come from."""
        as_read = Original(record.topic, record.partition, record.offset, record.key, list(record.headers))
        return original_of(as_read, self._raw) if record.topic == self.topics.rekeyed else as_read

    # -- waiting ----------------------------------------------------------------------------------------

    async def _handle_once_readable(
        self,
        record: Record,
        need: NeedsSchema,
        triggers: Triggers,
        counts: Counter[str],
        still_ours: Callable[[], bool],
    ) -> None:
        """Fetch the schema it was written with. A registry that is away is waited for, never guessed at."""
        pause, longest = _WAIT_SECONDS
        while True:
            try:
                schema = await asyncio.to_thread(self.fetch_schema, need.schema_id)
            except Unreachable as problem:
                self.waiting(
                    f"{record.topic}/{record.partition} waits at offset {record.offset} for schema "
                    f"{need.schema_id}: {problem}"
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
                if not still_ours():
                    self.waiting(None)
                    self.table.discard()
                    raise GivenUp from problem
            except Poison as problem:
                self.waiting(None)
                self._bury(
                    record, Reason(STAGE, problem.code, str(problem), exception=type(problem).__name__)
                )
                counts["dead_lettered"] += 1
                return
            else:
                self.waiting(None)
                self.reader.learn(need.schema_id, schema)
                self._handle(record, triggers, counts)
                return


def _is_replay(record: Record) -> bool:
    return any(name == deadletter.REPLAY_OF for name, _ in record.headers)


def _count(counts: Counter[str], seconds: float) -> None:
    for outcome, count in counts.items():
        (metrics.EVENTS if outcome in _OF_EVENTS else metrics.VERDICTS).labels(outcome).inc(count)
    metrics.BATCH_SECONDS.observe(seconds)

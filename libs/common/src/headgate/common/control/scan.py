"""Reading topics at will: from a time, backwards from the end, or one record by its coordinates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from headgate.common.errors import Unreachable
from headgate.common.fingerprints import partition_of

from .connection import ANSWER_SECONDS, Connection, unreachable

SILENCE_SECONDS = 15.0
ASK_AGAIN_SECONDS = 0.1
LEADER_TO_COME = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""What a broker says of a partition while its leader changes, or its topic has only just been created."""
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
Progress = Callable[[int, int], None]
"""Told now and then how many records of how many have been read."""


@dataclass(frozen=True)
class Record:
    """One record as it stands on a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int

    @property
    def coordinates(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class Span:
    """Offsets `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


class Scan:
    """Bounded reads over one connection."""

    def __init__(self, connection: Connection, progress: Progress | None = None) -> None:
        self._connection = connection
        self.progress = progress

    def home(self, topic: str, key: str) -> list[int]:
        """The partition where our producers put this key."""
        return [partition_of(key.encode(), self._connection.partitions(topic))]

    def whole(self, topic: str, partitions: Iterable[int] | None = None) -> list[Span]:
        """Everything that stands on a topic now."""
        chosen = self._chosen(topic, partitions)
        first = self._offsets(topic, chosen, EARLIEST)
        last = self._offsets(topic, chosen, LATEST)
        return [Span(topic, p, first[p], last[p]) for p in chosen]

    def between(
        self,
        topic: str,
        since_ms: int | None = None,
        until_ms: int | None = None,
        partitions: Iterable[int] | None = None,
    ) -> list[Span]:
        """What was written in a time range, by the broker's index of timestamps."""
        spans = self.whole(topic, partitions)
        starts = self._at_time(spans, since_ms) if since_ms is not None else {}
        ends = self._at_time(spans, until_ms) if until_ms is not None else {}
        return [
            Span(topic, s.partition, starts.get(s.partition, s.start), ends.get(s.partition, s.end))
            for s in spans
        ]

    def _chosen(self, topic: str, partitions: Iterable[int] | None) -> list[int]:
        count = self._connection.partitions(topic)
        return list(range(count)) if partitions is None else [p for p in partitions if p < count]

    def _offsets(self, topic: str, partitions: list[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in partitions}
        patience = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                answers = self._connection.admin.list_offsets(asked, request_timeout=ANSWER_SECONDS)
                return {place.partition: answer.result().offset for place, answer in answers.items()}
            except KafkaException as error:
                if error.args[0].code() not in LEADER_TO_COME or time.monotonic() > patience:
                    raise unreachable(error) from None
            self._connection.forget_leaders()
            time.sleep(ASK_AGAIN_SECONDS)

    def _at_time(self, spans: list[Span], moment_ms: int) -> dict[int, int]:
        """The first offset at or after a moment, for each partition."""
        asked = [TopicPartition(s.topic, s.partition, max(0, moment_ms)) for s in spans]
        try:
            answers = self._connection.reader.offsets_for_times(asked, timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise unreachable(error) from None
        ends = {s.partition: s.end for s in spans}
        return {a.partition: a.offset if a.offset >= 0 else ends[a.partition] for a in answers}

    def records(self, spans: Iterable[Span]) -> Iterator[Record]:
        """Every record of the spans, in order within a partition."""
        for message in self.messages(spans):
            yield record_of(message)

    def messages(self, spans: Iterable[Span]) -> Iterator[Message]:
        """As `records`, undecoded: looking at a key costs nothing but the key."""
        open_spans = {(s.topic, s.partition): s for s in spans if s.size}
        if not open_spans:
            return
        total, read, told = sum(s.size for s in open_spans.values()), 0, time.monotonic()
        consumer = self._connection.reader
        consumer.assign([TopicPartition(s.topic, s.partition, s.start) for s in open_spans.values()])
        heard = time.monotonic()
        try:
            while open_spans:
                batch = consumer.consume(2000, timeout=0.02)
                now = time.monotonic()
                heard = now if batch else heard
                if now - heard > SILENCE_SECONDS:
                    raise Unreachable(
                        f"Kafka sent nothing for {SILENCE_SECONDS:.0f} s while reading {next(iter(open_spans))[0]}. "
                        "Try again; `headgate doctor` looks closer."
                    )
                for message in batch:
                    place, offset = _stands(message)
                    span = open_spans.get(place)
                    if span is None:
                        continue
                    if (error := message.error()) is not None:
                        _end_or_raise(error)
                        del open_spans[place]
                        continue
                    if offset >= span.end - 1:
                        del open_spans[place]
                        if open_spans:
                            # Not pause(): a paused partition stays silent in the next scan.
                            consumer.incremental_unassign([TopicPartition(*place)])
                    if offset < span.end:
                        read += 1
                        yield message
                if self.progress and now - told > 0.2:
                    told = now
                    self.progress(min(read, total), total)
        finally:
            consumer.unassign()

    def backwards(
        self, topic: str, partitions: Iterable[int] | None, step: int = 4_000, until_ms: int | None = None
    ) -> Iterator[list[Span]]:
        """Windows from the end of a topic to its start, each larger than the last: look at the newest first."""
        spans = self.between(topic, None, until_ms, partitions)
        while any(span.size for span in spans):
            yield [Span(s.topic, s.partition, max(s.start, s.end - step), s.end) for s in spans]
            spans = [Span(s.topic, s.partition, s.start, max(s.start, s.end - step)) for s in spans]
            step *= 4

    def forwards(
        self, topic: str, partitions: Iterable[int] | None, since_ms: int, step: int = 20_000
    ) -> Iterator[list[Span]]:
        """Windows from a time to the end of a topic, each larger than the last: what is sought stands near."""
        spans = self.between(topic, since_ms, None, partitions)
        while any(span.size for span in spans):
            yield [Span(s.topic, s.partition, s.start, min(s.end, s.start + step)) for s in spans]
            spans = [Span(s.topic, s.partition, min(s.end, s.start + step), s.end) for s in spans]
            step *= 4

    def newest(self, topic: str, count: int) -> list[Span]:
        """The last `count` offsets of every partition."""
        return next(self.backwards(topic, None, count), [])

    def following(self, topic: str, starts: dict[int, int]) -> Iterator[Message]:
        """What arrives from given offsets on, for ever."""
        consumer = self._connection.reader
        consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
        try:
            while True:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if (error := message.error()) is None:
                    yield message
                else:
                    _end_or_raise(error)
        finally:
            consumer.unassign()

    def one(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at these coordinates, unless retention or compaction has taken it."""
        span = next(iter(self.whole(topic, [partition])), None)
        if span is None or not span.start <= offset < span.end:
            return None
        found = next(self.records([Span(topic, partition, offset, offset + 1)]), None)
        return found if found is not None and found.offset == offset else None


def record_of(message: Message) -> Record:
    (topic, partition), offset = _stands(message)
    headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
    return Record(topic, partition, offset, message.key(), message.value(), headers, message.timestamp()[1])


def _stands(message: Message) -> tuple[tuple[str, int], int]:
    """A message's topic and partition, and its offset: never None for what was consumed."""
    return (message.topic() or "", message.partition() or 0), message.offset() or 0


def _end_or_raise(error: KafkaError) -> None:
    if error.code() != KafkaError._PARTITION_EOF:
        raise unreachable(KafkaException(error))

"""The same stage under plain Faust: one event at a time, Faust's own table and producer.

The fallback should a new Faust break the batch transport, and the baseline of the benchmark. Guarantees are
the same but for four: nothing is swept from the table, Faust acks an event whose task was cancelled, events
that a producer's transaction took back are read, and recovery ends where a broker says the changelog does,
which one that was paused may not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import faust

from headgate.common.fingerprints import partition_of
from headgate.common.headers import Headers
from headgate.common.topics import Topics
from headgate.processor.stage import Record, Stage

SCHEME = "kafka"
TABLE = "fingerprints"


@dataclass(slots=True)
class PlainRecord:
    """Faust's message as the stage sees records."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


@dataclass
class Single:
    """One event as a batch. Faust acks it when the agent goes on."""

    records: Sequence[Record]

    def finish(self) -> None:
        """Nothing to allow."""


class PlainTable:
    """Faust's own table: writing an entry sends it to the changelog."""

    def __init__(self, app: faust.App, topics: Topics, store: str) -> None:
        self._table: Any = app.Table(
            TABLE,
            key_type=bytes,
            value_type=bytes,
            partitions=topics.partitions,
            store="memory://" if store == "memory" else "rocksdb://?driver=rocksdict",
        )

    def fetch(self, partition: int, key: bytes) -> bytes | None:
        value: bytes | None = self._table.get(key)
        return value

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None:
        self._table[key] = value

    def commit(self, partition: int) -> None:
        """Faust has done it."""

    def discard(self) -> None:
        """Faust has done it."""

    def size(self) -> int:
        return len(self._table)

    def offsets(self) -> list[int]:
        return []

    def owned(self) -> list[int]:
        """None to sweep: Faust lets nobody write outside an agent."""
        return []

    def scan(self, partition: int, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return []


class PlainOutlet:
    """`topic.send` for each record; Faust flushes its producer before each commit."""

    def __init__(self, app: faust.App, topics: Topics, crash: Callable[[BaseException], None]) -> None:
        self._app = app
        self._topics = topics
        self._crash = crash
        self._channels: dict[str, Any] = {}
        self._pending: list[tuple[str, bytes | None, bytes | None, Headers | None]] = []

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | str | None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        if topic != self._topics.fingerprints_changelog:
            raw = key.encode() if isinstance(key, str) else key
            self._pending.append((topic, value, raw, headers))

    async def flush(self) -> None:
        for topic, value, key, headers in self._pending:
            channel = self._channels.get(topic)
            if channel is None:
                channel = self._channels[topic] = self._app.topic(
                    topic, value_serializer="raw", key_serializer="raw", value_type=bytes, key_type=bytes
                )
            # librdkafka's partitioner, not Faust's: everybody must find a key on one partition.
            where = None if key is None else partition_of(key, self._topics.partitions)
            sent: Any = await channel.send(key=key, value=value, headers=headers, partition=where)
            sent.add_done_callback(self._delivered)
        self._pending.clear()

    def settle(self) -> None:
        """Fail points are the batch driver's."""

    def _delivered(self, sent: asyncio.Future[Any]) -> None:
        problem = None if sent.cancelled() else sent.exception()
        if problem is not None:
            self._crash(problem)


def plain_agent(app: faust.App, topics: Topics, stage: Stage, crash: Callable[[BaseException], None]) -> None:
    """One event at a time."""
    channel = app.topic(
        topics.raw,
        topics.rekeyed,
        value_serializer="raw",
        key_serializer="raw",
        value_type=bytes,
        key_type=bytes,
        allow_empty=True,
    )

    @app.agent(channel, concurrency=1, name="stage-1")
    async def stage_1(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            headers = message.headers or ()
            record = PlainRecord(
                message.topic,
                message.partition,
                message.offset,
                round(message.timestamp * 1000),
                message.key,
                message.value,
                list(headers.items()) if isinstance(headers, dict) else headers,
            )
            try:
                await stage.work([Single([record])])
            except asyncio.CancelledError:
                raise
            except BaseException as problem:
                crash(problem)

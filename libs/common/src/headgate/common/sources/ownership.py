"""Which sources are ours: those whose name hashes to a partition of `headgate.cursors` that the consumer
group gave us, once we have read that partition to its end. Nobody else needs to be asked, and a replica
that dies is replaced after its session timeout.

A replica that was taken for dead and is not may publish once more; fingerprints absorb that. Its late
positions were true when it wrote them, since every event before them was stored.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import TimeoutError as FutureTimeout

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headgate.common.errors import HeadgateError
from headgate.common.registry import Codec
from headgate.common.settings import KafkaSettings
from headgate.common.sources.position import Stored
from headgate.common.sources.times import instant

log = structlog.get_logger(__name__)

SESSION_TIMEOUT_MS = 10_000
HAND_OVER_SECONDS = 8.0
"""How long a partition that moves waits for its sources to stop."""

Gained = Callable[[int, dict[str, Stored]], Awaitable[None]]
Lost = Callable[[set[int]], Awaitable[None]]


class Ownership:
    """The group membership, in a thread of its own; `gained` and `lost` run in the event loop."""

    def __init__(
        self, settings: KafkaSettings, service: str, codec: Codec, gained: Gained, lost: Lost
    ) -> None:
        self._topic = settings.topics().cursors
        self._codec = codec
        self._gained = gained
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._reading: dict[int, dict[str, Stored]] = {}
        self.joined = False
        """Whether the group has told us our share, be it empty."""
        self.failed: str | None = None
        """Set when membership cannot go on: the process should stop and be started anew."""
        self._consumer = Consumer(
            {
                **settings.librdkafka(),
                "group.id": f"{settings.prefix}.{service}.sources",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 2_000,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 200,
                "queued.max.messages.kbytes": 4096,
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._run, name="source-ownership", daemon=True)

    @property
    def settled(self) -> bool:
        """Whether everything that is ours has been read."""
        return self.joined and not self._reading

    def start(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        self._thread.start()

    async def stop(self) -> None:
        """Leave the group, so that the others take over at once."""
        self._stopping.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, HAND_OVER_SECONDS + 5)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                message = self._consumer.poll(0.2)
                if message is not None:
                    self._take(message)
        except Exception as problem:
            self.failed = f"lost the group that shares the sources: {problem}"
            log.error(
                "The group that shares the sources is lost; the process must restart.", error=str(problem)
            )
        finally:
            self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        partition = message.partition()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF and partition is not None:
                self._read_to_end(partition)
            elif error.fatal():
                raise KafkaException(error)
            return
        found = None if partition is None else self._reading.get(partition)
        if found is None:
            return
        key = message.key()
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key or ""
        value = message.value()
        if value is None:
            found.pop(name, None)
            return
        try:
            record = self._codec.decode("CursorRecord", value if isinstance(value, bytes) else value.encode())
        except HeadgateError as problem:
            log.error(
                "A stored position cannot be read; the one before it counts.", source=name, error=str(problem)
            )
            return
        found[name] = Stored(
            provider=record["provider"],
            cursor=record["cursor"],
            boundary=tuple(record["boundary"]),
            saved_at=instant(record["saved_at"]),
        )

    def _read_to_end(self, partition: int) -> None:
        found = self._reading.pop(partition, None)
        if found is not None:
            asyncio.run_coroutine_threadsafe(self._as_coroutine(self._gained(partition, found)), self._loop)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._reading[one.partition] = {}
            one.offset = OFFSET_BEGINNING
        consumer.incremental_assign(partitions)
        self.joined = True

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Give partitions up after their sources have stopped: the next owner reads what they saved."""
        numbers = {one.partition for one in partitions}
        for number in numbers:
            self._reading.pop(number, None)
        stopped = asyncio.run_coroutine_threadsafe(self._as_coroutine(self._lost(numbers)), self._loop)
        try:
            stopped.result(HAND_OVER_SECONDS)
        except FutureTimeout:
            log.warning("Sources did not stop in time; their next owner may publish an event again.")
        consumer.incremental_unassign(partitions)

    @staticmethod
    async def _as_coroutine(awaitable: Awaitable[None]) -> None:
        await awaitable

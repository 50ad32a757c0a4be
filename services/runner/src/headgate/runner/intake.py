"""The thread that talks to Kafka: polls, hands batches to the loop, answers rebalances.

librdkafka's calls block and its callbacks come in the thread that polls, so all of it lives here. The
loop decides; this thread waits for it where Kafka waits for an answer (a partition may go only after its
finished work is committed).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headgate.runner.settings import RunnerSettings

log = structlog.get_logger(__name__)

BATCH = 100
REVOKE_SECONDS = 5.0
"""How long a rebalance waits for engine calls; less than the session timeout."""


def consumer_config(settings: RunnerSettings) -> dict[str, Any]:
    """Small queues (memory), short waits (latency), nothing committed unless we say so."""
    config: dict[str, Any] = {
        **settings.kafka.librdkafka(),
        "group.id": f"{settings.kafka.prefix}.runner",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3_000,
        "fetch.min.bytes": 1,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 20,
        "fetch.message.max.bytes": 1024 * 1024,
        "fetch.max.bytes": 8 * 1024 * 1024,
        "queued.min.messages": 500,
        "queued.max.messages.kbytes": 8 * 1024,
        "reconnect.backoff.max.ms": 2_000,
        "log_level": 3,
    }
    if settings.instance_id:
        config["group.instance.id"] = settings.instance_id
    return config


class Intake:
    """One consumer in one thread. Made inside the running loop; the callables run on that loop."""

    def __init__(
        self,
        settings: RunnerSettings,
        *,
        deliver: Callable[[list[Message]], None],
        assign: Callable[[list[int]], None],
        release: Callable[[list[int] | None, float], Awaitable[dict[int, int]]],
        failed: Callable[[str], None],
    ) -> None:
        self._topic = settings.kafka.topics().matched
        self._grace_seconds = REVOKE_SECONDS
        self._loop = asyncio.get_running_loop()
        self._deliver, self._assign, self._release, self._failed = deliver, assign, release, failed
        self._consumer = Consumer(
            {**consumer_config(settings), "error_cb": self._on_error, "on_commit": self._on_commit}
        )
        self._room = threading.Semaphore(2)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-intake", daemon=True)
        self.beat_at = time.monotonic()
        """When the thread last came round."""
        self.trouble: str | None = None
        """What Kafka last complained about, until it works again."""

    def start(self) -> None:
        self._thread.start()

    async def stop(self, grace_seconds: float) -> bool:
        """Take nothing more, let what runs finish, commit, leave the group. False: it did not end in time."""
        self._grace_seconds = grace_seconds
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, grace_seconds + 10)
        return not self._thread.is_alive()

    def pause(self, partition: int) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def resume(self, partition: int) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.resume([TopicPartition(self._topic, partition)])

    def commit(self, marks: dict[int, int], *, wait: bool = False) -> None:
        """Commit marks. What fails is committed with the next one, or read again."""
        if not marks:
            return
        offsets = [TopicPartition(self._topic, number, mark) for number, mark in marks.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except KafkaException as problem:
            log.warning("A commit failed; a few records may be read again.", error=problem.args[0].str())

    def ends(self, partitions: list[int]) -> dict[int, int]:
        """Where these partitions end now. Blocks: call it in a thread. KafkaException when nobody answers."""
        return {
            number: self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=5)[1]
            for number in partitions
        }

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._stopping.is_set():
                self._round()
            self._consumer.close()
        except Exception as problem:
            log.exception("The Kafka thread ended.")
            self._tell(self._failed, f"the Kafka thread ended: {problem}")

    def _round(self) -> None:
        self.beat_at = time.monotonic()
        first = self._consumer.poll(0.5)
        if first is None:
            return
        batch = [first, *self._consumer.consume(BATCH - 1, 0)]
        good = [message for message in batch if message.error() is None]
        for message in batch:
            if message.error() is not None:
                self._note(message.error())
        if good:
            self.trouble = None
            while not self._room.acquire(timeout=0.5):
                if self._stopping.is_set():
                    return
                self.beat_at = time.monotonic()
            self._tell(self._take, good)

    def _take(self, batch: list[Message]) -> None:
        self._room.release()
        self._deliver(batch)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        self._tell(self._assign, numbers)
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.resume(partitions)
        log.info("Partitions assigned.", partitions=numbers)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        self.commit(self._released(numbers, self._grace_seconds), wait=True)
        log.info("Partitions given back.", partitions=numbers)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them already: nothing may be committed."""
        numbers = [one.partition for one in partitions]
        self._released(numbers, 0.0)
        log.warning("Partitions lost; their unfinished records are read again.", partitions=numbers)

    def _released(self, numbers: list[int], grace: float) -> dict[int, int]:
        async def release() -> dict[int, int]:
            return await self._release(numbers, grace)

        return asyncio.run_coroutine_threadsafe(release(), self._loop).result(grace + 10)

    def _on_error(self, error: KafkaError) -> None:
        self._note(error)

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._tell(self._failed, f"Kafka client cannot go on: {error.str()}")
        if error.code() == KafkaError._PARTITION_EOF:
            return
        if error.code() != KafkaError._TRANSPORT:
            self.trouble = error.str()
            log.warning("Kafka complains.", error=error.str())

    def _on_commit(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            log.warning("A commit was refused; a few records may be read again.", error=error.str())

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: so is the process
            self._loop.call_soon_threadsafe(call, *args)

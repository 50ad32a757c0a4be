"""The thread that talks to Kafka: polls, hands batches to the loop, commits, answers rebalances.

Every call of the consumer is made here. confluent-kafka lets one thread at a time into a consumer, so a
commit from the loop would stand still for as long as `poll` waits. The loop leaves wishes (pause,
resume, marks to commit), and the thread grants them each time it comes round. The other way about, a
rebalance waits for the loop: a partition may go only after its finished work is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headgate.runner.settings import RunnerSettings

log = structlog.get_logger(__name__)

BATCH = 100
POLL_SECONDS = 0.05
"""How long a wish may have to wait while no record arrives; records themselves end the wait at once."""
COMMIT_SECONDS = 0.2
OVERDUE_SECONDS = 30.0
"""After so long without an answer to a commit the next one goes all the same."""
REVOKE_SECONDS = 5.0
"""How long a rebalance waits for engine calls; less than the session timeout."""
SETTLE_SECONDS = 10.0
"""How long the last commit waits for a rebalance that is under way: it takes heartbeats, and each refuses."""


def consumer_config(settings: RunnerSettings) -> dict[str, Any]:
    """Small queues (memory), short waits (latency), nothing committed unless we say so."""
    config: dict[str, Any] = {
        **settings.kafka.librdkafka(),
        "group.id": settings.kafka.topics().runner_group,
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
        "fetch.message.max.bytes": 256 * 1024,
        "fetch.max.bytes": 2 * 1024 * 1024,
        "queued.min.messages": 500,
        "queued.max.messages.kbytes": 2 * 1024,
        "reconnect.backoff.max.ms": 2_000,
        "log_level": 2,
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
        release: Callable[[list[int], float], Awaitable[dict[int, int]]],
        refused: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._topic = settings.kafka.topics().matched
        self._grace_seconds = REVOKE_SECONDS
        self._loop = asyncio.get_running_loop()
        self._deliver, self._assign, self._release = deliver, assign, release
        self._refused, self._failed = refused, failed
        self._consumer = Consumer(
            {**consumer_config(settings), "error_cb": self._note, "on_commit": self._on_commit}
        )
        self._wishes: deque[tuple[str, int, int]] = deque()
        """(pause | resume | commit, partition, offset), in the order the loop had them."""
        self._marks: dict[int, int] = {}
        self._committed_at = 0.0
        self._committing = False
        """Whether an answer to a commit is still to come. A second one could overtake the first, which librdkafka
        may repeat: the group's offset would go back."""
        self._room = threading.Semaphore(2)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-intake", daemon=True)
        self._draining: Future[dict[int, int]] | None = None
        """While stopping: how far each partition is finished, once that is known."""
        self._leaving: set[int] = set()
        """The partitions of which that may still be committed: not what a rebalance took meanwhile."""
        self.beat_at = time.monotonic()
        """When the thread last came round."""
        self.trouble: str | None = None
        """What Kafka last complained about; whoever reads it clears it."""

    def start(self) -> None:
        self._thread.start()

    async def stop(self, grace_seconds: float) -> bool:
        """Take nothing more, let what runs finish, commit, leave the group. False: it did not end in time."""
        self._grace_seconds = grace_seconds
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, grace_seconds + SETTLE_SECONDS + 10)
        return not self._thread.is_alive()

    def pause(self, partition: int) -> None:
        self._wishes.append(("pause", partition, 0))

    def resume(self, partition: int) -> None:
        self._wishes.append(("resume", partition, 0))

    def commit(self, partition: int, mark: int) -> None:
        """Commit soon. What is refused is asked for again."""
        self._wishes.append(("commit", partition, mark))

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._stopping.is_set():
                self.beat_at = time.monotonic()
                self._grant()
                self._read()
            self._drain()
            self._consumer.close()
        except Exception as problem:
            log.exception("The Kafka thread ended.")
            self._tell(self._failed, f"the Kafka thread ended: {problem}")

    def _drain(self) -> None:
        """Let what runs finish as a living member of the group. In `close` no heartbeat goes out: after a session's
        length Kafka would refuse the commit, and all that finished meanwhile would be started again."""
        assigned = self._consumer.assignment()
        self._consumer.pause(assigned)
        self._leaving = {one.partition for one in assigned}
        self._draining = self._ask(list(self._leaving), self._grace_seconds)
        while not self._draining.done():
            self.beat_at = time.monotonic()
            self._grant()
            self._consumer.poll(POLL_SECONDS)
        self._grant()
        marks = {**self._marks, **self._draining.result()}
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            self._marks = {number: mark for number, mark in marks.items() if number in self._leaving}
            if self._commit(wait=True) or time.monotonic() > until:
                return
            # The group is in the middle of a rebalance. It goes on in `poll`, and may take some of them.
            self.beat_at = time.monotonic()
            self._consumer.poll(POLL_SECONDS)

    def _read(self) -> None:
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return
        good = []
        for message in [first, *self._consumer.consume(BATCH - 1, 0)]:
            error = message.error()
            if error is None:
                good.append(message)
            else:
                self._note(error)
        if not good:
            return
        self.trouble = None
        while not self._room.acquire(timeout=0.5):
            if self._stopping.is_set():
                return
            self.beat_at = time.monotonic()
        self._tell(self._take, good)

    def _take(self, batch: list[Message]) -> None:
        self._room.release()
        self._deliver(batch)

    def _grant(self) -> None:
        while self._wishes:
            what, partition, mark = self._wishes.popleft()
            if what == "commit":
                self._marks[partition] = mark
                continue
            call = self._consumer.pause if what == "pause" else self._consumer.resume
            with contextlib.suppress(KafkaException):  # not ours any more
                call([TopicPartition(self._topic, partition)])
        pause = OVERDUE_SECONDS if self._committing else COMMIT_SECONDS
        if self._marks and self.beat_at - self._committed_at >= pause:
            self._committed_at = self.beat_at
            self._commit(wait=False)

    def _commit(self, *, wait: bool) -> bool:
        """Whether nothing was refused, as far as that is known yet."""
        offsets = [TopicPartition(self._topic, number, mark) for number, mark in self._marks.items()]
        self._marks = {}
        if not offsets:
            return True
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
                self._committing = True
        except KafkaException as problem:
            log.warning("A commit failed; a few records may be read again.", error=problem.args[0].str())
            return False
        return True

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        self._tell(self._assign, numbers)
        consumer.incremental_assign(partitions)
        if partitions and self._draining is not None:
            consumer.pause(partitions)
        elif partitions:
            consumer.resume(partitions)
        log.info("Partitions assigned.", partitions=numbers)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        marks = self._released(numbers, self._grace_seconds)
        self._grant()
        self._marks.update(marks)
        self._commit(wait=True)
        log.info("Partitions given back.", partitions=numbers)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them already: nothing may be committed."""
        numbers = [one.partition for one in partitions]
        self._released(numbers, 0.0)
        self._grant()
        self._marks = {number: mark for number, mark in self._marks.items() if number not in numbers}
        log.warning("Partitions lost; their unfinished records are read again.", partitions=numbers)

    def _released(self, numbers: list[int], grace: float) -> dict[int, int]:
        """The loop lets the partitions go and says how far each is finished; no wish of theirs comes later."""
        if self._draining is not None:
            # They are on their way out already: wait for that, as long as a rebalance may wait.
            going = self._leaving & set(numbers)
            self._leaving -= going
            with contextlib.suppress(TimeoutError):
                marks = self._draining.result(min(grace, REVOKE_SECONDS))
                return {number: mark for number, mark in marks.items() if number in going}
            return {}
        return self._ask(numbers, grace).result(grace + 10)

    def _ask(self, numbers: list[int], grace: float) -> Future[dict[int, int]]:
        async def release() -> dict[int, int]:
            return await self._release(numbers, grace)

        return asyncio.run_coroutine_threadsafe(release(), self._loop)

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._tell(self._failed, f"the Kafka client cannot go on: {error.str()}")
        elif error.code() not in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
            self.trouble = error.str()
            log.warning("Kafka complains.", error=error.str())

    def _on_commit(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._committing = False
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            log.warning("A commit was refused and is tried again.", error=error.str())
            self._tell(self._refused)

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: so is the process
            self._loop.call_soon_threadsafe(call, *args)

"""A producer whose `send` means stored: the future resolves when every in-sync replica has the record.

librdkafka does the work and reports in the thread that polls it. While little is under way that is a thread of its
own, which hears at once and wakes the loop once for each burst. When much is under way two threads would spend more on
passing the interpreter's lock to and fro, for every single record, than on all else: then the loop polls by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as RdProducer

from headgate.common.errors import TooLarge, Unreachable
from headgate.common.headers import Headers
from headgate.common.settings import KafkaSettings

DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.max.bytes": 8 * 1024 * 1024,
    "queue.buffering.max.messages": 20_000,
    "queue.buffering.max.kbytes": 32 * 1024,
    "delivery.timeout.ms": 30_000,
    "log_level": 2,
    "reconnect.backoff.max.ms": 2_000,
}
"""Bounded: when the broker is away, `send` refuses at once instead of filling the memory."""


FLUSH_STEP_SECONDS = 0.1
MUCH = 8
"""Records under way from which on the loop polls."""
TICK_SECONDS = 0.001
CALM_TICKS = 50
"""With less than that under way for so many ticks, the thread polls again."""

Told = Callable[[Exception | None, Message | None], None]
"""Hears what became of a record: stored, or why not."""


class QueueFull(Unreachable):
    """More is waiting for the broker than we are willing to hold."""


class Producer:
    """One per process, made inside the running loop and closed by `close`."""

    def __init__(self, settings: KafkaSettings, **overrides: Any) -> None:
        self._loop = asyncio.get_running_loop()
        config = {
            **settings.librdkafka(),
            **DEFAULTS,
            "compression.type": settings.compression,
            **overrides,
        }
        config["error_cb"] = self._on_error
        self._rd = RdProducer(config)
        self._results: deque[tuple[Told, KafkaError | None, Message]] = deque()
        self._underway = 0
        self._calm = 0
        self._ticking = False
        self._thread_polls = threading.Event()
        self._thread_polls.set()
        self._stopping = False
        self.fatal: str | None = None
        """Set when librdkafka cannot go on: the process should stop and be started anew."""
        self._thread = threading.Thread(target=self._poll, name="headgate-producer", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        *,
        key: str | bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[Message]:
        """Hand over a record. Await the future: until it resolves, nothing is promised.

        Raises QueueFull at once when too much is waiting; the future raises Unreachable when the
        broker did not confirm in time (the record may still arrive) and TooLarge when it never will.
        """
        future: asyncio.Future[Message] = self._loop.create_future()

        def told(error: Exception | None, message: Message | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            elif message is not None:
                future.set_result(message)

        self.hand_over(topic, key, value, headers, told, partition)
        return future

    def hand_over(
        self,
        topic: str,
        key: str | bytes | None,
        value: bytes | None,
        headers: Headers | None,
        told: Told,
        partition: int | None = None,
    ) -> None:
        """What `send` does, without a future: `told` is called in the loop, once, with what `send` would raise."""
        results = self._results

        def delivered(error: KafkaError | None, message: Message) -> None:
            results.append((told, error, message))

        where = -1 if partition is None else partition
        with_any_value = cast(list[tuple[str, str | bytes | None]] | None, headers)
        try:
            self._rd.produce(
                topic, value=value, key=key, headers=with_any_value, partition=where, on_delivery=delivered
            )
        except BufferError as problem:
            raise QueueFull(
                "Kafka is not keeping up and the send queue is full; try again later"
            ) from problem
        except KafkaException as problem:
            raise _named(problem.args[0], topic) from problem
        self._underway += 1
        if self._underway >= MUCH:
            self._calm = 0
            if not self._ticking:
                self._ticking = True
                self._thread_polls.clear()
                self._loop.call_later(TICK_SECONDS, self._tick)

    @property
    def busy(self) -> bool:
        """Whether much is under way, or was a moment ago."""
        return self._ticking

    def __len__(self) -> int:
        """Records handed over and not yet confirmed."""
        return len(self._rd)

    async def flush(self, timeout_seconds: float) -> int:
        """Wait until everything handed over is confirmed; returns how many are not."""
        until = self._loop.time() + timeout_seconds
        while True:
            # Deliveries are reported to whichever thread polls, this one included: hand them on now and then.
            step = max(0.0, min(FLUSH_STEP_SECONDS, until - self._loop.time()))
            left: int = await asyncio.to_thread(self._rd.flush, step)
            self._resolve()
            if not left or self._loop.time() >= until:
                break
        await asyncio.sleep(0)
        return left

    async def close(self, timeout_seconds: float = 10.0) -> int:
        """Flush and stop. Returns how many records were given up."""
        left = await self.flush(timeout_seconds)
        self._stopping = True
        self._thread_polls.set()
        await asyncio.to_thread(self._thread.join, 2.0)
        return left

    def _poll(self) -> None:
        while not self._stopping:
            if self._rd.poll(0.2):
                self._loop.call_soon_threadsafe(self._resolve)
            self._thread_polls.wait()

    def _tick(self) -> None:
        """The loop's own poll, as long as there is enough to do."""
        self._rd.poll(0)
        self._resolve()
        self._calm += 1
        if self._calm > CALM_TICKS or self._stopping:
            self._ticking = False
            self._thread_polls.set()
        else:
            self._loop.call_later(TICK_SECONDS, self._tick)

    def _resolve(self) -> None:
        results = self._results
        while results:
            told, error, message = results.popleft()
            self._underway -= 1
            try:
                told(None if error is None else _named(error, message.topic() or "a topic"), message)
            except Exception as problem:  # the others are still told
                self._loop.call_exception_handler(
                    {"message": "what waits for a delivery failed", "exception": problem}
                )

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error.str()


def _named(error: KafkaError, topic: str) -> Exception:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge(f"the record is larger than {topic} takes")
    return Unreachable(f"Kafka did not confirm a record for {topic}: {error.str()}")

"""The processor's producer: `send` many, `flush` once, and then all of it is stored or the process ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as RdProducer

from headgate.common.errors import HeadgateError
from headgate.common.headers import Headers
from headgate.common.settings import KafkaSettings

DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 100,
    "message.max.bytes": 8 * 1024 * 1024,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 24 * 1024,
    "delivery.timeout.ms": 120_000,
    "log_level": 2,
}
"""The linger is long because it never shows: a flush sends at once whatever is there. Shorter, it only cut a
batch into many small requests, which cost a sixth of the processor's time and more of the broker's."""
_ANYWHERE = -1
"""librdkafka's word for: by the key."""
_ROUND_SECONDS = 0.02
FEW_RECORDS = 100
_AT_ONCE_SECONDS = 0.003
"""So few are mostly stored before a helper thread would have woken up to wait for them: they are waited for here."""
_FULL_SECONDS = 60.0


class DeliveryFailed(HeadgateError):
    """Kafka did not take something we sent. Nothing may be committed after that: the process ends."""


class Outbox:
    """Not thread-safe: `send` and `flush` belong to one event loop, and nothing is sent during a flush: a
    flush that waits for an ever-filling queue would never end.

    Only failures call back: that everything is delivered shows in the queue being empty. Callbacks run where
    librdkafka is polled: in `flush`, here or in its helper thread, or in `send` when its queue is full.
    """

    def __init__(self, settings: KafkaSettings, **overrides: Any) -> None:
        config = {**settings.librdkafka(), **DEFAULTS, **overrides}
        config["delivery.report.only.error"] = True
        config["on_delivery"] = self._on_delivery
        config["error_cb"] = self._on_error
        self._rd = RdProducer(config)
        self._produce: Any = self._rd.produce
        self._thread = ThreadPoolExecutor(1, "headgate-outbox")
        self._flushing = False
        self._failure: str | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | str | None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Hand over a record; a later `flush` tells what became of it."""
        if self._flushing:
            raise RuntimeError("a record was sent during a flush; take turns")
        where = _ANYWHERE if partition is None else partition
        try:
            # Without headers it is a third cheaper than with none.
            if headers is None:
                self._produce(topic, value, key, where)
            else:
                self._produce(topic, value, key, where, headers=headers)
        except BufferError:
            self._make_room(lambda: self._produce(topic, value, key, where, headers=headers or []))
        except KafkaException as problem:
            raise DeliveryFailed(f"Kafka refuses a record for {topic}: {problem.args[0].str()}") from problem

    async def flush(self) -> None:
        """Wait until everything sent so far is stored. DeliveryFailed: some of it never will be."""
        loop = asyncio.get_running_loop()
        self._flushing = True
        try:
            if 0 < len(self._rd) <= FEW_RECORDS:
                self._rd.flush(_AT_ONCE_SECONDS)
            while len(self._rd) and self._failure is None:
                await loop.run_in_executor(self._thread, self._rd.flush, _ROUND_SECONDS)
        finally:
            self._flushing = False
        if self._failure is not None:
            raise DeliveryFailed(self._failure)

    def settle(self) -> None:
        """What `flush` does, blocking: for fail points, which claim that what was sent is stored."""
        self._rd.flush(_FULL_SECONDS)

    async def close(self, timeout_seconds: float = 5.0) -> None:
        """Let go. What is still under way is read again after the next start."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._rd.flush, timeout_seconds)
        self._thread.shutdown(wait=False)

    def _make_room(self, again: Callable[[], None]) -> None:
        """The queue is full because Kafka is slow: wait here, and keep the loop from taking more."""
        until = time.monotonic() + _FULL_SECONDS
        while self._failure is None:
            self._rd.poll(_ROUND_SECONDS)
            try:
                again()
            except BufferError:
                if time.monotonic() > until:
                    self._fail(f"the send queue has been full for {_FULL_SECONDS:.0f} s")
            else:
                return
        raise DeliveryFailed(self._failure)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(f"Kafka did not take a record for {message.topic()}: {error.str()}")

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fail(f"the producer cannot go on: {error.str()}")

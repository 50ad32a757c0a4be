"""A producer whose `send` means stored: the future resolves when every in-sync replica has the record.

librdkafka does the work and calls back in the thread that polls it; the bridge to asyncio hands whole
bursts of results to the loop at once, since one wake-up per record is what such bridges die of.
"""

from __future__ import annotations

import asyncio
import threading
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
        self._results: list[tuple[asyncio.Future[Message], KafkaError | None, Message]] = []
        self._handover = threading.Lock()
        self._wake_pending = False
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

        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._handover:
                self._results.append((future, error, message))
                if self._wake_pending:
                    return
                self._wake_pending = True
            self._loop.call_soon_threadsafe(self._resolve)

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
        return future

    def __len__(self) -> int:
        """Records handed over and not yet confirmed."""
        return len(self._rd)

    async def flush(self, timeout_seconds: float) -> int:
        """Wait until everything handed over is confirmed; returns how many are not."""
        left: int = await asyncio.to_thread(self._rd.flush, timeout_seconds)
        await asyncio.sleep(0)
        return left

    async def close(self, timeout_seconds: float = 10.0) -> int:
        """Flush and stop. Returns how many records were given up."""
        left = await self.flush(timeout_seconds)
        self._stopping = True
        await asyncio.to_thread(self._thread.join, 2.0)
        return left

    def _poll(self) -> None:
        while not self._stopping:
            self._rd.poll(0.2)

    def _resolve(self) -> None:
        with self._handover:
            results, self._results = self._results, []
            self._wake_pending = False
        for future, error, message in results:
            if future.done():
                continue
            if error is None:
                future.set_result(message)
            else:
                future.set_exception(_named(error, message.topic() or "a topic"))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error.str()


def _named(error: KafkaError, topic: str) -> Exception:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge(f"the record is larger than {topic} takes")
    return Unreachable(f"Kafka did not confirm a record for {topic}: {error.str()}")

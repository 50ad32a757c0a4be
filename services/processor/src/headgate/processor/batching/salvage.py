"""Records that aiokafka refuses to read, read by librdkafka.

A header whose name is not UTF-8 makes aiokafka fail on the whole fetch, each time anew: one such record
from any producer would stop its partition for ever. librdkafka gives at least its key and value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings

_DEADLINE_SECONDS = 30.0


class UnreadableHeaders(tuple[tuple[str, bytes], ...]):
    """In place of headers that nobody here can read."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What aiokafka's ConsumerRecord would have been."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


Salvage = Callable[[str, int, int, int], list[Salvaged]]
"""(topic, partition, first offset, offset that cannot be read) -> the records from the one to the other."""


def salvager(settings: KafkaSettings) -> Salvage:
    """Blocking; called from a thread, and only ever for a record that is broken."""

    def salvage(topic: str, partition: int, first: int, unreadable: int) -> list[Salvaged]:
        consumer = Consumer(
            {
                **settings.librdkafka(),
                "group.id": f"{settings.prefix}.salvage",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        found: list[Salvaged] = []
        until = time.monotonic() + _DEADLINE_SECONDS
        try:
            consumer.assign([TopicPartition(topic, partition, first)])
            while not found or found[-1].offset < unreadable:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    found.append(_record(message))
                elif time.monotonic() > until:
                    raise Unreachable(f"{topic}/{partition} did not give its record at offset {unreadable}")
        finally:
            consumer.close()
        return found

    return salvage


def _record(message: Message) -> Salvaged:
    headers: tuple[tuple[str, bytes], ...]
    try:
        given: Any = message.headers() or []
        headers = tuple((str(name), _bytes(value)) for name, value in given)
    except (SystemError, UnicodeDecodeError):
        headers = UnreadableHeaders()
    key, value = message.key(), message.value()
    return Salvaged(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        None if key is None else _bytes(key),
        None if value is None else _bytes(value),
        headers,
    )


def _bytes(value: bytes | str | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""

"""A materialised copy of a compacted topic: every trigger or source by name, kept current by a thread.

Reads need no lock and no await: `view.get(name)` is a dict look-up. A view knows whether it has read
the topic to its end (`ready`) and whether that is still known to be so (`fresh`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headgate.common.errors import HeadgateError, Unreachable
from headgate.common.model import Source, Stored, Trigger
from headgate.common.registry import Codec
from headgate.common.settings import KafkaSettings

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

CHECK_SECONDS = 1.0
FRESH_SECONDS = 5.0
RETRY_SECONDS = 1.0


class View(Generic[Value]):
    """Read `topic` from its beginning and follow it. `decode` turns a key and a record's bytes into a value.

    A record that cannot be read is logged and leaves what was known of its key: one bad record must not
    take a trigger away. One whose schema the registry has to be asked for is asked for until that answers.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        decode: Callable[[str, bytes], Value],
        on_change: Callable[[str, Value | None], None] | None = None,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._decode = decode
        self._on_change = on_change
        self._values: dict[str, Value] = {}
        self._waiting: dict[str, bytes] = {}
        """By name, records that could not be read because the registry was away."""
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._fresh_at = float("-inf")
        self.version = 0
        """Grows with every change; compare it to notice one."""
        self._thread = threading.Thread(target=self._run, name=f"view-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5)

    @property
    def ready(self) -> bool:
        """Whether the topic has been read to its end once."""
        return self._ready.is_set()

    def wait_ready(self, timeout_seconds: float) -> bool:
        """Block until ready; call it through `asyncio.to_thread`."""
        return self._ready.wait(timeout_seconds)

    def fresh(self, now: float | None = None) -> bool:
        """Whether the broker told us within the last seconds that we have everything: only then does a
        name that is not here not exist."""
        return (time.monotonic() if now is None else now) - self._fresh_at <= FRESH_SECONDS

    def get(self, name: str) -> Value | None:
        return self._values.get(name)

    def snapshot(self) -> Mapping[str, Value]:
        """Everything by name; a copy that later changes do not touch."""
        return dict(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (KafkaException, HeadgateError) as problem:
                log.warning("A view lost its topic and tries again.", topic=self._topic, error=str(problem))
                self._stopping.wait(RETRY_SECONDS)

    def _follow(self) -> None:
        consumer = Consumer(
            {
                **self._settings.librdkafka(),
                "group.id": f"{self._settings.prefix}.view",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "queued.max.messages.kbytes": 4096,
                "fetch.wait.max.ms": 100,
                "log_level": 2,
            }
        )
        try:
            partitions = self._partitions(consumer)
            position = dict.fromkeys(partitions, 0)
            consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in partitions])
            checked_at = float("-inf")
            seen: set[str] | None = set()
            while not self._stopping.is_set():
                message = consumer.poll(0.1)
                if message is not None:
                    if message.error() is None:
                        position[message.partition() or 0] = (message.offset() or 0) + 1
                        self._take(message.key(), message.value(), seen)
                    continue
                now = time.monotonic()
                if seen is None and now - checked_at < CHECK_SECONDS:
                    continue
                checked_at = now
                for name, value in list(self._waiting.items()):
                    self._take(name, value, seen)
                if self._waiting or not self._at_end(consumer, position):
                    continue
                if seen is not None:
                    self._forget_all_but(seen)
                    seen = None
                    self._ready.set()
                self._fresh_at = now
        finally:
            consumer.close()

    def _partitions(self, consumer: Consumer) -> list[int]:
        topic = consumer.list_topics(self._topic, timeout=2).topics[self._topic]
        if topic.error is not None:
            raise HeadgateError(f"{topic.error.str()}: run headgate topics apply")
        return sorted(topic.partitions)

    def _at_end(self, consumer: Consumer, position: dict[int, int]) -> bool:
        """Ask the broker where the topic ends. Compaction leaves holes, so the consumer's own position counts."""
        for number, read in position.items():
            where = TopicPartition(self._topic, number)
            low, high = consumer.get_watermark_offsets(where, timeout=2)
            if high > low and max(consumer.position([where])[0].offset, read) < high:
                return False
        return True

    def _take(self, key: bytes | str | None, value: bytes | str | None, seen: set[str] | None) -> None:
        """One record. `seen` holds what a first reading has met, until it reaches the end."""
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key or ""
        waited = self._waiting.pop(name, None)
        if value is None:
            if seen is not None:
                seen.discard(name)
            if self._values.pop(name, None) is not None:
                self._changed(name, None)
            return
        if seen is not None:
            seen.add(name)
        raw = value if isinstance(value, bytes) else value.encode()
        try:
            decoded = self._decode(name, raw)
        except Unreachable as problem:
            self._waiting[name] = raw
            if waited != raw:
                log.warning(
                    "A record waits for the schema registry.",
                    topic=self._topic,
                    name=name,
                    error=str(problem),
                )
            return
        except Exception as problem:
            log.error(
                "A record cannot be read and is passed over; what was known of its name stays.",
                topic=self._topic,
                name=name,
                error=str(problem)[:500],
            )
            return
        self._values[name] = decoded
        self._changed(name, decoded)

    def _forget_all_but(self, seen: set[str]) -> None:
        for name in [name for name in self._values if name not in seen]:
            del self._values[name]
            self._changed(name, None)

    def _changed(self, name: str, value: Value | None) -> None:
        self.version += 1
        if self._on_change is not None:
            self._on_change(name, value)


def trigger_view(
    settings: KafkaSettings,
    codec: Codec,
    on_change: Callable[[str, Stored[Trigger] | None], None] | None = None,
) -> View[Stored[Trigger]]:
    """All triggers by name."""

    def decode(_: str, value: bytes) -> Stored[Trigger]:
        return Stored.of(codec.decode("TriggerRecord", value), Trigger)

    return View(settings, settings.topics().triggers, decode, on_change)


def source_view(
    settings: KafkaSettings,
    codec: Codec,
    on_change: Callable[[str, Stored[Source] | None], None] | None = None,
) -> View[Stored[Source]]:
    """All sources by name."""

    def decode(_: str, value: bytes) -> Stored[Source]:
        return Stored.of(codec.decode("SourceRecord", value), Source)

    return View(settings, settings.topics().sources, decode, on_change)


def plain_view(settings: KafkaSettings, topic: str, codec: Codec, record: str) -> View[dict[str, Any]]:
    """Any compacted topic of ours, as decoded records by key."""
    return View(settings, topic, lambda _, value: codec.decode(record, value))

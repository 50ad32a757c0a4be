"""Who watches while things are killed: a reader of the topics, and samplers of offsets and memory.

Observers belong to no consumer group and are never killed. The reader keeps each record's coordinates, time, key,
headers and bytes until a round is judged.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)
from tests.harness.evidence import Coordinates, OffsetSample


@dataclass(frozen=True)
class Record:
    """One record as the broker has it."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def where(self) -> Coordinates:
        return self.topic, self.partition, self.offset

    @property
    def sha(self) -> str:
        return hashlib.sha256(self.value or b"").hexdigest()

    def header(self, name: str) -> str:
        """The last header of this name as text; empty when there is none."""
        found = [value for key, value in self.headers if key == name]
        return (found[-1] or b"").decode("utf-8", "replace") if found else ""


class TopicReader:
    """Reads whole topics in a thread of its own, from their beginning, by assignment."""

    def __init__(self, bootstrap: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "harness-observer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._topics = tuple(topics)
        self._partitions = self._all_partitions()
        self._consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t, p in self._partitions])
        self._lock = threading.Lock()
        self._records: dict[str, list[Record]] = defaultdict(list)
        self._next: dict[tuple[str, int], int] = dict.fromkeys(self._partitions, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-reader", daemon=True)
        self._thread.start()

    def records(self, topic: str) -> list[Record]:
        with self._lock:
            return list(self._records[topic])

    def count(self, topic: str) -> int:
        with self._lock:
            return len(self._records[topic])

    def forget(self) -> None:
        """Drop what was kept: its round was judged."""
        with self._lock:
            self._records.clear()

    def at(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether everything below these end offsets has been read."""
        return all(self._next.get(place, 0) >= end for place, end in ends.items())

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._consumer.close()

    def _all_partitions(self) -> list[tuple[str, int]]:
        known = self._consumer.list_topics(timeout=10).topics
        return [(topic, number) for topic in self._topics for number in known[topic].partitions]

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(500, 0.1)
            with self._lock:
                for message in messages:
                    if message.error() is None:
                        record = _record(message)
                        self._records[record.topic].append(record)
                        self._next[record.topic, record.partition] = record.offset + 1


def _record(message: Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or ()
    key, value = message.key(), message.value()
    return Record(topic, partition, offset, message.timestamp()[1], key, value, tuple(headers))


class Offsets:
    """Reads end offsets and committed offsets of the groups under test."""

    def __init__(self, bootstrap: str, groups: Mapping[str, Sequence[str]]) -> None:
        """`groups`: the topics that each group under test reads."""
        self._config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._consumer = Consumer({**self._config, "group.id": "harness-offsets"})
        self._groups = groups
        self._askers: dict[str, Consumer] = {}
        self._lock = threading.Lock()

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        with self._lock:
            known = self._consumer.list_topics(timeout=10).topics
            places = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            return {
                (place.topic, place.partition): self._consumer.get_watermark_offsets(place, timeout=10)[1]
                for place in places
            }

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What the group has committed, asked by a consumer that never joins it. (The admin client's own call can
        abort the process when brokers die under it.)"""
        with self._lock:
            if group not in self._askers:
                config = {**self._config, "group.id": group, "enable.auto.commit": False}
                self._askers[group] = Consumer(config)
            known = self._consumer.list_topics(timeout=10).topics
            topics = [topic for topic in self._groups[group] if topic in known]
            places = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            found = self._askers[group].committed(places, timeout=5)
        return {(place.topic, place.partition): place.offset for place in found}

    def close(self) -> None:
        for asker in self._askers.values():
            asker.close()
        self._consumer.close()


class Sampler:
    """Once a second: what each group has committed, and how much memory each process takes."""

    def __init__(
        self, bootstrap: str, groups: Mapping[str, Sequence[str]], memory: Callable[[], Mapping[str, int]]
    ) -> None:
        self._offsets = Offsets(bootstrap, groups)
        self._groups = groups
        self._memory = memory
        self.samples: list[OffsetSample] = []
        self.max_rss: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(15)
        self._offsets.close()

    def sample(self) -> None:
        for group in self._groups:
            with contextlib.suppress(KafkaException, TimeoutError):
                committed = self._offsets.committed(group)
                now = time.monotonic_ns()
                for (topic, partition), offset in committed.items():
                    if offset >= 0:
                        self.samples.append(OffsetSample(now, group, topic, partition, offset))
        for name, size in self._memory().items():
            self.max_rss[name] = max(size, self.max_rss.get(name, 0))

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            self.sample()

"""Follow what is written to a few topics from now on, decoded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headgate.common.errors import Poison
from headgate.common.registry import Codec, Registry
from headgate.common.settings import ServiceSettings

ANSWER_SECONDS = 15


class Tail:
    """Positions are taken when it is made: what is written afterwards is heard, nothing before."""

    def __init__(self, settings: ServiceSettings, records: Iterable[str]) -> None:
        topics = settings.kafka.topics()
        self._record_of = {one.name: one.schema for one in topics.all if one.schema in set(records)}
        self._registry = Registry(settings.registry, settings.schema_cache)
        self._codec = Codec(self._registry, topics)
        config: dict[str, Any] = {
            **settings.kafka.librdkafka(),
            "group.id": f"{topics.prefix}.demo",  # never joined: positions are assigned by hand
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = Consumer(config)
        self._consumer.assign([self._end_of(one) for one in self._partitions()])

    def follow(
        self, hear: Callable[[str, dict[str, Any]], None], done: Callable[[], bool], seconds: float
    ) -> None:
        """Hand each record over with its type, until `done` or the time is up."""
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            record, value = self._record_of[str(message.topic())], message.value()
            if record is None or value is None:
                continue
            try:
                hear(record, self._codec.decode(record, value))
            except Poison:
                continue  # not written by us; the processor's own tools report it

    def close(self) -> None:
        self._consumer.close()
        self._registry.close()

    def _partitions(self) -> list[TopicPartition]:
        found = []
        for topic in self._record_of:
            metadata = self._consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
            found += [TopicPartition(topic, number) for number in metadata.partitions]
        return found

    def _end_of(self, where: TopicPartition) -> TopicPartition:
        _, end = self._consumer.get_watermark_offsets(where, timeout=ANSWER_SECONDS)
        return TopicPartition(where.topic, where.partition, end)

"""What the processor asks the broker beside Faust: blocking calls, made from threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings

_TIMEOUT_SECONDS = 10.0


class Cluster:
    """Offsets and topic ids. Unreachable when the broker does not answer."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._config: dict[str, Any] = {**settings.librdkafka(), "socket.timeout.ms": 10_000, "log_level": 2}
        self._admin = AdminClient(self._config)
        self._askers: dict[str, Consumer] = {}

    def topic_id(self, topic: str) -> str:
        """The id that tells a topic from another that had its name."""
        try:
            answer = self._admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_SECONDS)
            return str(answer[topic].result(timeout=_TIMEOUT_SECONDS * 2).topic_id)
        except (KafkaException, TimeoutError) as problem:
            raise Unreachable(f"Kafka does not describe {topic}: {problem}") from problem

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The next offset to be written, by (topic, partition)."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offset that is still there."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def committed(self, group: str, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The next offset to read; partitions without a commit are left out.

        Asked by a consumer that never joins the group: the admin client's own call can abort the whole process
        (an assertion in librdkafka) when a broker dies under it.
        """
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        if group not in self._askers:
            self._askers[group] = Consumer({**self._config, "group.id": group, "enable.auto.commit": False})
        try:
            found = self._askers[group].committed(wanted, timeout=_TIMEOUT_SECONDS)
        except (KafkaException, TimeoutError) as problem:
            raise Unreachable(f"Kafka does not tell the offsets of {group}: {problem}") from problem
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def _offsets(self, partitions: Iterable[tuple[str, int]], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(topic, number): spec for topic, number in partitions}
        if not asked:
            return {}
        try:
            answer = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_SECONDS)
            return {
                (where.topic, where.partition): future.result(timeout=_TIMEOUT_SECONDS * 2).offset
                for where, future in answer.items()
            }
        except (KafkaException, TimeoutError) as problem:
            # The client keeps the leader epochs it first learnt; after an election it is refused for ever.
            self._admin = AdminClient(self._config)
            raise Unreachable(f"Kafka does not tell the ends of our partitions: {problem}") from problem

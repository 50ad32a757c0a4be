"""What the processor asks the broker beside Faust: blocking calls, made from threads."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings

_TIMEOUT_SECONDS = 10.0


class Cluster:
    """Offsets and topic ids. Unreachable when the broker does not answer."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = AdminClient({**settings.librdkafka(), "socket.timeout.ms": 10_000, "log_level": 2})

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
        """The next offset to read; partitions without a commit are left out."""
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        try:
            answer = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=_TIMEOUT_SECONDS
            )
            found = answer[group].result(timeout=_TIMEOUT_SECONDS * 2).topic_partitions
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
            raise Unreachable(f"Kafka does not tell the ends of our partitions: {problem}") from problem

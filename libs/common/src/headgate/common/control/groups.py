"""How far the services have read: committed offsets, what is left, and who is there to read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from headgate.common.topics import Topics

from .connection import ANSWER_SECONDS, Connection, unreachable
from .scan import Scan


@dataclass(frozen=True)
class Group:
    """One service's consumer group on the topics it reads."""

    service: str
    name: str
    state: str
    members: tuple[str, ...]
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return bool(self.members)

    def next_offset(self, topic: str, partition: int) -> int:
        """The offset this group reads next, by what it has committed."""
        place = (topic, partition)
        return max(self.committed.get(place, 0), self.starts.get(place, 0))

    def lag(self, topic: str, partition: int) -> int:
        return max(0, self.ends.get((topic, partition), 0) - self.next_offset(topic, partition))

    @property
    def total_lag(self) -> int:
        return sum(self.lag(*place) for place in self.ends)


def inputs(topics: Topics) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Services that must read every record: their group, and the topics they read."""
    return {
        "processor": (topics.processor_app, (topics.raw, topics.rekeyed)),
        "runner": (topics.runner_group, (topics.matched,)),
    }


def group_of(connection: Connection, service: str) -> Group:
    """The group of `processor` or `runner`, as the broker sees it now."""
    name, topics = inputs(connection.topics)[service]
    scan = Scan(connection)
    spans = [span for topic in topics for span in scan.whole(topic)]
    places = [TopicPartition(span.topic, span.partition) for span in spans]
    state, members = _described(connection, name)
    return Group(
        service=service,
        name=name,
        state=state,
        members=members,
        committed=_committed(connection, name, places),
        ends={(span.topic, span.partition): span.end for span in spans},
        starts={(span.topic, span.partition): span.start for span in spans},
    )


def _described(connection: Connection, name: str) -> tuple[str, tuple[str, ...]]:
    try:
        future = connection.admin.describe_consumer_groups([name], request_timeout=ANSWER_SECONDS)[name]
        group = future.result(timeout=ANSWER_SECONDS)
    except KafkaException as error:
        if error.args[0].name() == "GROUP_ID_NOT_FOUND":
            return "never seen", ()
        raise unreachable(error) from None
    if group.state is ConsumerGroupState.DEAD:  # what Kafka says of a group it never heard of
        return "never seen", ()
    state = group.state.name.lower().replace("_", " ")
    return state, tuple(f"{member.client_id}@{member.host.lstrip('/')}" for member in group.members)


def _committed(
    connection: Connection, name: str, places: Iterable[TopicPartition]
) -> dict[tuple[str, int], int]:
    asked = ConsumerGroupTopicPartitions(name, list(places))
    try:
        future = connection.admin.list_consumer_group_offsets([asked], request_timeout=ANSWER_SECONDS)[name]
        found = future.result(timeout=ANSWER_SECONDS).topic_partitions
    except KafkaException as error:
        if error.args[0].name() == "GROUP_ID_NOT_FOUND":
            return {}
        raise unreachable(error) from None
    return {(place.topic, place.partition): place.offset for place in found or () if place.offset >= 0}

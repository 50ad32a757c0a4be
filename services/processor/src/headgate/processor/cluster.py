"""What the processor asks the broker beside Faust: blocking calls, made from threads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.common.errors import Unreachable
from headgate.common.settings import KafkaSettings

_TIMEOUT_SECONDS = 10.0
_BARRIER_SECONDS = 60.0
_BARRIER = b"\x00barrier"
"""Key of a record that only has to be stored. It has no value, and is no fingerprint."""


class Cluster:
    """Offsets and topic ids. Unreachable when the broker does not answer."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._config: dict[str, Any] = {**settings.librdkafka(), "socket.timeout.ms": 10_000, "log_level": 2}
        self._admin = AdminClient(self._config)
        self._askers: dict[str, Consumer] = {}
        self._prefix = settings.prefix
        self._stood: dict[tuple[str, int], int] = {}

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

    def barrier(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """As `ends`, behind a record of our own in each partition, which all in-sync replicas have.

        A broker that was paused takes itself for the leader when it wakes up, and tells an end that others have
        long written past. But it can store nothing: where our record stands, no earlier one is missing.
        """
        found: dict[tuple[str, int], int] = {}
        failed: list[str] = []

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error.str())
            else:
                found[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1

        wanted = list(partitions)
        for topic, number in wanted:
            self._producer.produce(topic, key=_BARRIER, partition=number, on_delivery=stored)
        self._producer.flush(_BARRIER_SECONDS)
        if failed or len(found) < len(wanted):
            raise Unreachable(f"Kafka stores nothing in {wanted[0][0]}: {(failed or ['no answer'])[0]}")
        return found

    @cached_property
    def _producer(self) -> Producer:
        limits = {"linger.ms": 0, "message.timeout.ms": int(_BARRIER_SECONDS * 1000) - 1000}
        return Producer({**self._config, **limits, "acks": "all", "enable.idempotence": True})

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

    def past_markers(
        self, done: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """`done`, and the end instead where nothing is left to be read before it.

        The end of a producer's transaction takes an offset too, and no reader is given it: nobody commits it.
        Looked at is only what has not moved since it was asked for last.
        """
        still = {one: at for one, at in done.items() if at < ends[one] and self._stood.get(one) == at}
        self._stood = dict(done)
        unread = self._unread(still) if still else set()
        return {one: ends[one] if one in still and one not in unread else at for one, at in done.items()}

    def _unread(self, since: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
        """The partitions that give a record at or behind the offset; those that do not answer count too."""
        unread, left = set(since), set(since)
        until = time.monotonic() + _TIMEOUT_SECONDS
        try:
            self._reader.assign([TopicPartition(*one, offset) for one, offset in since.items()])
            while left and time.monotonic() < until:
                message = self._reader.poll(0.2)
                if message is None:
                    continue
                one, error = (message.topic() or "", message.partition() or 0), message.error()
                if error is None:
                    left.discard(one)
                elif error.code() == KafkaError._PARTITION_EOF and one in left:
                    left.discard(one)
                    unread.discard(one)
            self._reader.unassign()
        except KafkaException as problem:
            raise Unreachable(f"Kafka does not tell what is left to read: {problem}") from problem
        return unread

    @cached_property
    def _reader(self) -> Consumer:
        own = {
            "group.id": f"{self._prefix}.unread",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        little = {"fetch.message.max.bytes": 65_536, "queued.max.messages.kbytes": 1_024}
        return Consumer({**self._config, **own, **little, "enable.partition.eof": True})

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

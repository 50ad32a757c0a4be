"""Is work going on? Judged per partition, from values; the app acts on the answer.

Waiting is fine when something will end it: an engine call has a timeout, a retry a budget, a slot is
given back. A partition in which nothing at all happened for long is stuck, and so is the thread that
should read from Kafka; then the process ends and its partitions move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.common.settings import KafkaSettings
from headgate.runner.lanes import Lane


def stalled(
    lanes: Iterable[Lane],
    ends: Mapping[int, int],
    *,
    now: float,
    beat_at: float,
    stall_seconds: float,
) -> str | None:
    """What is stuck, as a reason for /readyz; None when all is well. `ends`: where partitions end."""
    if now - beat_at > stall_seconds:
        return f"the Kafka thread has not come round for {now - beat_at:.0f} s"
    for lane in lanes:
        still = now - lane.moved_at
        if lane.held and still > stall_seconds and lane.waiting_for_slot < len(lane.workers):
            return f"partition {lane.partition}: {lane.held} records in hand and none moved for {still:.0f} s"
        mark = lane.water.mark
        behind = ends.get(lane.partition, 0) - mark if mark is not None else 0
        quiet = now - max(lane.taken_at, lane.moved_at)
        if behind > 0 and not lane.held and quiet > stall_seconds:
            return f"partition {lane.partition}: {behind} records wait and none came for {quiet:.0f} s"
    return None


class Ends:
    """Where partitions end, asked through a client of its own: the consumer could be what is stuck."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic = settings.topics().matched
        self._config: dict[str, Any] = {**settings.librdkafka(), "log_level": 2}
        self._admin = AdminClient(self._config)

    def __call__(self, partitions: Iterable[int]) -> dict[int, int]:
        """Blocks: call it in a thread. KafkaException when nobody answers."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(self._topic, number): latest for number in partitions}
        if not asked:
            return {}
        try:
            answers = self._admin.list_offsets(asked, request_timeout=5)
            return {where.partition: answer.result(timeout=10).offset for where, answer in answers.items()}
        except KafkaException:
            # The client keeps the leader epochs it first learnt; after an election it is refused for ever.
            self._admin = AdminClient(self._config)
            raise

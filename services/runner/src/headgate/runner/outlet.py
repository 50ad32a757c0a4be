"""What the runner writes: run records and dead letters. `write` returns when Kafka has them for sure.

While Kafka cannot take them it tries again and nothing is committed; the watchdog ends a process that
cannot get rid of its results, and its records are read again elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from headgate.common import deadletter
from headgate.common.errors import Unreachable
from headgate.common.headers import Headers, cloud_event
from headgate.common.health import Health
from headgate.common.producer import Producer
from headgate.common.registry import Codec
from headgate.common.topics import Topics
from headgate.runner.lanes import Job

log = structlog.get_logger(__name__)

_AGAIN_SECONDS = 1.0


class Outlet:
    """Run records and dead letters, written for sure."""

    def __init__(self, producer: Producer, codec: Codec, topics: Topics, health: Health) -> None:
        self._producer = producer
        self._codec = codec
        self._topics = topics
        self._health = health

    async def run(self, record: Mapping[str, Any], traceparent: str) -> None:
        """Write the state of a run."""
        micros = time.time_ns() // 1000
        headers = cloud_event(
            event_id=record["run_id"],
            source=f"runner/{record['engine']}",
            type=f"headgate.run.{record['state']}",
            micros=micros,
            subject=record["trigger"],
            trace=traceparent,
        )
        value = self._codec.encode("Run", {**record, "recorded_at": micros})
        await self._write(self._topics.runs, record["run_id"], value, headers)

    async def dead_letter(self, job: Job, reason: deadletter.Reason) -> None:
        """Write a record to the DLQ: its bytes as they came, and why."""
        headers = deadletter.headers(reason, job.headers, datetime.now(UTC))
        await self._write(self._topics.dlq, job.key, job.value, headers)

    async def _write(
        self, topic: str, key: str | bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        while True:
            try:
                await self._producer.send(topic, key=key, value=value, headers=headers)
            except Unreachable as problem:
                if self._producer.fatal:
                    raise
                self._health.degraded("producer", str(problem))
                log.warning(
                    "A result cannot be written yet; nothing is committed meanwhile.", error=str(problem)
                )
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._health.ok("producer")
                return

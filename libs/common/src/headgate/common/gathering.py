"""A burst at a time, while there are bursts: what linger.ms does, but only under load.

librdkafka sends one request for each partition that has something, so a record that waits a little for others is much
cheaper: for the client, and for the broker. linger.ms makes every record wait, also the one that nobody follows. Here
nothing waits while little is under way; else records are kept for a few milliseconds and handed over together.
"""

from __future__ import annotations

import asyncio

from headgate.common.errors import HeadgateError
from headgate.common.headers import Headers
from headgate.common.producer import Producer, Told

SECONDS = 0.003


class Gathering:
    """In front of a producer whose linger.ms is 0 or small; `release` it before the producer is closed."""

    def __init__(self, producer: Producer, seconds: float = SECONDS) -> None:
        self._producer = producer
        self._seconds = seconds
        self._kept: list[tuple[str, str | bytes | None, bytes | None, Headers | None, Told]] = []

    def hand_over(
        self, topic: str, key: str | bytes | None, value: bytes | None, headers: Headers | None, told: Told
    ) -> None:
        """As the producer's; that it refuses a record is raised, or told where the record was kept first."""
        if not self._producer.busy:
            self._producer.hand_over(topic, key, value, headers, told)
            return
        if not self._kept:
            asyncio.get_running_loop().call_later(self._seconds, self.release)
        self._kept.append((topic, key, value, headers, told))

    def release(self) -> None:
        kept, self._kept = self._kept, []
        for topic, key, value, headers, told in kept:
            try:
                self._producer.hand_over(topic, key, value, headers, told)
            except HeadgateError as problem:
                told(problem, None)

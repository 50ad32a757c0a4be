"""A clock that tests own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class FixedClock:
    """Time stands still but for `sleep`, which passes it at once and remembers how long."""

    def __init__(self, at: datetime = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)) -> None:
        self.at = at
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += timedelta(seconds=seconds)
        await asyncio.sleep(0)

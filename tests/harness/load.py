"""A steady stream of planned events through the doors of a plan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp
from tests.harness.history import History
from tests.harness.pipeline import Pipeline
from tests.harness.plan import Plan
from tests.harness.senders import Listings, Producers, Webhooks

AT_ONCE = 64
MOST = 20
"""The stream goes on while a fault lasts, to at most so many times the events asked for."""


class Load:
    """Sends events 0, 1, 2, ... of a plan; `sent` is how many were begun."""

    def __init__(self, pipeline: Pipeline, plan: Plan, history: History) -> None:
        self._pipeline = pipeline
        self._plan = plan
        self._history = history
        self.sent = 0
        self.enough = asyncio.Event()
        """Set when the events asked for have been sent."""

    async def run(self, events: int, rate: float, more: Callable[[], bool] = lambda: False) -> None:
        """Send `events`, `rate` a second, and further ones for as long as `more` says so."""
        slots = asyncio.Semaphore(AT_ONCE)
        timeout = aiohttp.ClientTimeout(total=15)
        connector = aiohttp.TCPConnector(limit=AT_ONCE, force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            webhooks = Webhooks(self._pipeline.ingest_urls, self._history, session)
            producers = Producers(
                self._pipeline.cluster.bootstrap,
                self._pipeline.topics.raw,
                self._history,
                self._pipeline.raw_schema_id,
            )

            listings = Listings(self._pipeline.provider, self._history)

            async def send(seq: int) -> None:
                event = self._plan[seq]
                pushed = webhooks if event.door.webhook else producers
                try:
                    await (pushed if event.door.pushed else listings).send(self._plan, event)
                finally:
                    slots.release()

            async with asyncio.TaskGroup() as tasks:
                due = time.monotonic()
                while self.sent < events or (more() and self.sent < MOST * events):
                    await slots.acquire()
                    tasks.create_task(send(self.sent))
                    self.sent += 1
                    if self.sent >= events:
                        self.enough.set()
                    due = max(due + 1 / rate, time.monotonic() - 1)
                    await asyncio.sleep(max(0.0, due - time.monotonic()))

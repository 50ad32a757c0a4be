"""How many engine calls run at once: so many in all, and so many for one trigger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate.runner.lanes import Job


class Slots:
    """Waits in turn. A trigger's limit keeps one slow engine from taking every slot."""

    def __init__(self, total: int, per_trigger: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_trigger = per_trigger
        self._triggers: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self.running = 0

    @asynccontextmanager
    async def one(self, trigger: str, job: Job) -> AsyncIterator[None]:
        """Hold a slot for the length of a call."""
        own, users = self._triggers.get(trigger) or (asyncio.Semaphore(self._per_trigger), 0)
        self._triggers[trigger] = own, users + 1
        try:
            job.lane.waiting_for_slot += 1
            try:
                with job.lane.idle(job):
                    await own.acquire()
                    try:
                        await self._total.acquire()
                    except BaseException:
                        own.release()
                        raise
            finally:
                job.lane.waiting_for_slot -= 1
            self.running += 1
            try:
                yield
            finally:
                self.running -= 1
                self._total.release()
                own.release()
        finally:
            own, users = self._triggers[trigger]
            if users == 1:
                del self._triggers[trigger]
            else:
                self._triggers[trigger] = own, users - 1

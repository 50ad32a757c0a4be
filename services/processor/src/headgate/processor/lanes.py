"""Several batches at once, each with a producer of its own: one is decided while others are being stored.

What holds nevertheless, because entries of one fingerprint must reach the changelog in their order:

* a table partition is in one lane at a time, from the first record decided until everything is stored;
* whoever waits for a partition gets it in the order of asking;
* what an interrupted lane had sent already is stored before anything else is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from headgate.common.headers import Headers


class Outlet(Protocol):
    """Where records go: `send` many, `flush` once."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | str | None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None: ...

    async def flush(self) -> None: ...

    def settle(self) -> None:
        """What `flush` does, blocking: only fail points ask for it."""


class Lanes:
    """As many as there are outlets."""

    def __init__(self, outlets: Sequence[Outlet]) -> None:
        self._free = list(outlets)
        self._interrupted: list[Outlet] = []
        self._places = asyncio.Semaphore(len(outlets))
        self._partitions: dict[int, asyncio.Lock] = {}
        self._clearing = asyncio.Lock()

    @asynccontextmanager
    async def lane(self, partition: int) -> AsyncIterator[Outlet]:
        """An outlet for work on one partition. Left without an exception, it must have been flushed."""
        turn = self._partitions.setdefault(partition, asyncio.Lock())
        async with turn, self._places:
            await self._clear()
            outlet = self._free.pop()
            try:
                yield outlet
            except BaseException:
                self._interrupted.append(outlet)
                raise
            self._free.append(outlet)

    async def _clear(self) -> None:
        async with self._clearing:
            while self._interrupted:
                # It stays in the list until it is flushed; others may be added meanwhile, behind it.
                await self._interrupted[0].flush()
                self._free.append(self._interrupted.pop(0))

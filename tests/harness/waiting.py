"""Waiting for a condition, with a deadline and a sentence for when it is missed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Missed(AssertionError):
    """A condition did not come true in time."""


async def until(
    what: str,
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    seconds: float,
    every: float = 0.1,
) -> float:
    """Wait until `condition` holds; returns the seconds it took. Raises Missed with `what`."""
    began = time.monotonic()
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return time.monotonic() - began
        if time.monotonic() - began > seconds:
            raise Missed(f"within {seconds:.0f} s it was not true that {what}")
        await asyncio.sleep(every)

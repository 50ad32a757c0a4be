"""Wait for a condition, never for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.02


def wait_until(condition: Callable[[], object], seconds: float = 20, what: str = "the condition") -> None:
    """Return as soon as `condition` is true; AssertionError when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds:g} s"
        time.sleep(PAUSE_SECONDS)


async def until(condition: Callable[[], object], seconds: float = 20, what: str = "the condition") -> None:
    """`wait_until` for coroutines."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds:g} s"
        await asyncio.sleep(PAUSE_SECONDS)

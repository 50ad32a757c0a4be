"""When to ask an engine again. Pure: the attempt, the engine's wish and a random number in, a pause out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class Budget:
    """How long one record may hold its key. When it is spent the record goes to the DLQ."""

    attempts: int
    base_seconds: float = 1.0
    """Mean pause after the first attempt is half of it; it grows fourfold each time."""
    cap_seconds: float = 60.0
    """No single pause is longer, whatever the engine asks for."""
    total_seconds: float = 300.0
    """From the first attempt to the last."""


def pause(
    budget: Budget, *, attempt: int, elapsed_seconds: float, asked_seconds: float | None, chance: float
) -> float | None:
    """Seconds to wait after the `attempt`-th failure (from 1); None when the budget is spent.

    Full jitter: engines that come back are not met by everyone at once. An engine that names a time
    gets at least that time, up to the cap.
    """
    if attempt >= budget.attempts:
        return None
    seconds = chance * min(budget.cap_seconds, budget.base_seconds * 4.0 ** min(attempt - 1, 20))
    if asked_seconds is not None:
        seconds = max(seconds, min(asked_seconds, budget.cap_seconds))
    if elapsed_seconds + seconds > budget.total_seconds:
        return None
    return seconds


def retry_after(value: str | None, now: datetime) -> float | None:
    """A Retry-After header in seconds from now: a number or an HTTP date; None where it says nothing."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(min(int(value[:12]), 10**9))
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())

"""When to look next. Pure: instants and a random number in, seconds out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 300.0
LONGEST_ORDERED_PAUSE_SECONDS = 3_600.0
"""A provider may ask for ten years; we ask again after an hour."""
PAUSED_SECONDS = 900.0
"""A source that needs a person asks again this often, in case the credential was replaced in place."""


@dataclass(frozen=True)
class Rhythm:
    """A turn every so often, spread by `jitter` (0.1: ten per cent either way)."""

    every: timedelta
    jitter: float = 0.0

    def pause_seconds(self, turn_took: float, random: float) -> float:
        """From the end of a turn to the beginning of the next; `random` lies in [0, 1)."""
        spread = 1 + self.jitter * (2 * random - 1)
        return max(0.0, self.every.total_seconds() * spread - turn_took)


def backoff_seconds(failures: int, random: float, ordered: float | None = None) -> float:
    """The pause after the nth failure in a row: doubled each time, or what the provider ordered.

    Half of it is random, so that replicas and sources do not return together. An order is honoured
    and exceeded by up to a tenth, never undercut.
    """
    if ordered is not None:
        return min(max(ordered, 0.0), LONGEST_ORDERED_PAUSE_SECONDS) * (1 + 0.1 * random)
    full = min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE_SECONDS)
    return full * (0.5 + random / 2)

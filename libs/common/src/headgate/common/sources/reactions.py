"""What the runtime does about an error: how long it waits, what it calls it, how loudly. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headgate.common.errors import AuthRejected, Misconfigured, RateLimited, Transient, Unreachable
from headgate.common.sources.timing import PAUSED_SECONDS, backoff_seconds


@dataclass(frozen=True)
class Reaction:
    """The pause before the next turn, the outcome as metrics name it, the level of the log line."""

    pause_seconds: float
    outcome: Literal["rate_limited", "auth_rejected", "misconfigured", "transient", "kafka", "bug"]
    level: Literal["info", "warning", "error"]


def reaction(error: Exception, failures: int, random: float) -> Reaction:
    """The nth failure in a row. What needs a person is an error, what passes by itself a warning."""
    pause = backoff_seconds(failures, random)
    match error:
        case RateLimited():
            ordered = error.retry_after_seconds
            return Reaction(backoff_seconds(failures, random, ordered), "rate_limited", "info")
        case AuthRejected():
            return Reaction(PAUSED_SECONDS * (1 + 0.1 * random), "auth_rejected", "error")
        case Misconfigured():
            return Reaction(PAUSED_SECONDS * (1 + 0.1 * random), "misconfigured", "error")
        case Transient():
            return Reaction(pause, "transient", "warning")
        case Unreachable():
            return Reaction(pause, "kafka", "warning")
        case _:
            return Reaction(pause, "bug", "error")

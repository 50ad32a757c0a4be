"""What is counted, and log lines that a flood cannot multiply."""

import time
from typing import Any

import structlog
from prometheus_client import Counter, Gauge, Histogram

log = structlog.get_logger(__name__)

DELIVERIES = Counter(
    "headgate_ingest_deliveries_total",
    "Deliveries by source and the status they were answered.",
    ["source", "status"],
)
DEAD_LETTERS = Counter(
    "headgate_ingest_dead_letters_total", "Authentic deliveries that make no event.", ["source"]
)
ACK_SECONDS = Histogram(
    "headgate_ingest_ack_seconds",
    "From handing a record to Kafka to its acknowledgement.",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
IN_FLIGHT = Gauge("headgate_ingest_in_flight", "Deliveries waiting for Kafka.")

QUIET_SECONDS = 10.0


class Quiet:
    """One line per subject and period; the next one says how many were left out."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], tuple[float, int]] = {}

    def warning(self, sentence: str, *subject: str, **facts: Any) -> None:
        now = time.monotonic()
        then, omitted = self._last.get(subject, (float("-inf"), 0))
        if now - then < QUIET_SECONDS:
            self._last[subject] = (then, omitted + 1)
            return
        if len(self._last) > 1000:
            self._last.clear()
        self._last[subject] = (now, 0)
        log.warning(sentence, **facts, **({"omitted": omitted} if omitted else {}))

"""What the runner tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

RUNS = Counter(
    "headgate_runner_runs_total", "Matched records done with, by how they ended.", ["engine", "outcome"]
)
ATTEMPTS = Counter("headgate_runner_attempts_total", "Times an engine was asked.", ["engine", "answer"])
CALL_SECONDS = Histogram(
    "headgate_runner_call_seconds", "How long engines take to answer.", ["engine"], buckets=_SECONDS
)
INGEST_TO_RUN_SECONDS = Histogram(
    "headgate_runner_ingest_to_run_seconds",
    "From the event's arrival at ingest to its run at the engine.",
    buckets=_SECONDS,
)
HELD = Gauge("headgate_runner_held_records", "Records taken from Kafka and not finished.")
RUNNING = Gauge("headgate_runner_running_calls", "Engine calls in flight.")
PAUSED = Gauge("headgate_runner_paused_partitions", "Partitions paused because enough is in hand.")
LAG = Gauge("headgate_runner_lag_records", "Records behind the committed mark, by partition.", ["partition"])

"""What the processor counts."""

from prometheus_client import Counter, Gauge, Histogram

EVENTS = Counter(
    "headgate_processor_events_total",
    "Events read, by what became of them: decided, unheard (no trigger listens), rekeyed, dead_lettered.",
    ["outcome"],
)
VERDICTS = Counter(
    "headgate_processor_verdicts_total",
    "Verdicts of triggers: started, filtered, duplicate, off, error.",
    ["outcome"],
)
BATCH_SECONDS = Histogram(
    "headgate_processor_batch_seconds",
    "From taking a batch to everything it caused being stored.",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
TABLE_ENTRIES = Gauge("headgate_processor_table_entries", "Fingerprints in the table, about.")
TABLE_MEMORY = Gauge(
    "headgate_processor_table_memory_bytes",
    "Memory of the table on disk: blocks read, and what is not written yet.",
)
SWEPT = Counter("headgate_processor_swept_total", "Fingerprints forgotten because their window has passed.")
LAG = Gauge("headgate_processor_lag", "Records behind the end of a partition.", ["topic", "partition"])
RECOVERING = Gauge("headgate_processor_recovering", "1 while the table is read from its changelog.")
TRIGGERS = Gauge("headgate_processor_triggers", "Triggers known.")

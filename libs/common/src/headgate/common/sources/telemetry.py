"""What the source runtime counts."""

from __future__ import annotations

import contextlib

from prometheus_client import Counter, Gauge

EVENTS = Counter("headgate_source_events_total", "Events stored on the broker.", ["source", "provider"])
BAD_ITEMS = Counter(
    "headgate_source_bad_items_total", "Items sent to the dead letters.", ["source", "provider"]
)
TURNS = Counter("headgate_source_turns_total", "Turns by how they ended.", ["source", "outcome"])
LAST_SUCCESS = Gauge("headgate_source_last_success_seconds", "Unix time of the last good turn.", ["source"])
FOLLOWED = Gauge("headgate_sources_followed", "Sources this replica follows.")
PARTITIONS = Gauge("headgate_source_partitions_owned", "Partitions of the cursor topic this replica owns.")


def forget(source: str) -> None:
    """A source that is no longer ours leaves no stale number behind."""
    with contextlib.suppress(KeyError):
        LAST_SUCCESS.remove(source)

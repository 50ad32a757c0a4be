"""What an unfinished event is waiting for, in a sentence with the next step."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.common.fingerprints import partition_of
from headgate.common.headers import text
from headgate.common.rekeying import ORIGIN

from .connection import Connection
from .events import Event
from .groups import Group, group_of
from .scan import Record, Scan


@dataclass(frozen=True)
class Waiting:
    """One thing that has not happened yet."""

    stage: str
    what: str
    next: str


def for_decision(connection: Connection, scan: Scan, event: Event) -> Waiting:
    """An event that is stored and not decided."""
    group = group_of(connection, "processor")
    record = _rekeyed(connection, scan, event) or event.record
    return _waiting(group, record, "stored, not decided yet")


def for_run(connection: Connection, trigger: str, run_id: str, matched: Record | None) -> Waiting:
    """A matched event whose run is not recorded."""
    group = group_of(connection, "runner")
    if matched is None:
        return Waiting(
            "runner",
            f"trigger {trigger} asked for run {run_id}, which is neither recorded nor waiting",
            "it may have been written this moment: ask again",
        )
    return _waiting(group, matched, f"matched by {trigger}, run not recorded yet")


def _waiting(group: Group, record: Record, what: str) -> Waiting:
    """Pure: from how far a group has read, what keeps this record waiting."""
    service = group.service
    before = record.offset - group.next_offset(record.topic, record.partition)
    stands = record.coordinates
    if before < 0:
        return Waiting(
            service,
            f"{what}; the {service} has read past it at {stands}, its answer is not visible yet",
            "ask again in a moment; if it stays so, look at the log of the " + service,
        )
    queue = f"{before} record{'s' * (before != 1)} before it at {stands}"
    if not group.running:
        return Waiting(
            service,
            f"{what}: no {service} is running (group {group.name}: {group.state}); {queue}",
            f"start it: `headgate dev`, or `python -m headgate.{service}`",
        )
    if before:
        lag = group.lag(record.topic, record.partition)
        return Waiting(
            service,
            f"{what}: the {service} is behind; {queue}, {lag} in that partition",
            f"wait, or add a replica of the {service}",
        )
    tries = (
        "it is being tried: the engine may not answer"
        if service == "runner"
        else "it is next; the processor may be starting, or wait for the dead-letter topic"
    )
    return Waiting(
        service, f"{what}: {tries}; {queue}", f"look at /readyz and the log of the {service}, then ask again"
    )


def _rekeyed(connection: Connection, scan: Scan, event: Event) -> Record | None:
    """Where an event stands that came on another partition than its fingerprint's."""
    topics, record = connection.topics, event.record
    if record.topic != topics.raw:
        return None
    if partition_of(event.fingerprint.encode(), connection.partitions(topics.raw)) == record.partition:
        return None
    home = scan.home(topics.rekeyed, event.fingerprint)
    for window in scan.forwards(topics.rekeyed, home, record.timestamp_ms - 1000):
        for found in list(scan.records(window)):
            if text(found.headers, ORIGIN) == record.coordinates:
                return found
    return None

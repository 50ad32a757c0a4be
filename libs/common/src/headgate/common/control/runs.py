"""Runs, each in its newest state."""

from __future__ import annotations

from headgate.common.errors import Poison

from .connection import Connection
from .events import Found
from .scan import Progress, Record, Scan


def newest_runs(
    connection: Connection,
    *,
    trigger: str | None = None,
    state: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    limit: int = 50,
    progress: Progress | None = None,
) -> list[Found]:
    """The newest runs a filter takes, newest first. Reads backwards, no further than needed."""
    scan = Scan(connection, progress)
    topic = connection.topics.runs
    newest: dict[bytes, Found] = {}
    if since_ms is not None:
        windows = iter([scan.between(topic, since_ms, until_ms)])
    else:
        windows = scan.backwards(topic, None, max(500, limit * 2), until_ms)
    for window in windows:
        here: dict[bytes, Found] = {}
        for record in scan.records(window):
            run = _decoded(connection, record)
            if run is not None and record.key is not None:
                here[record.key] = run
        newest = here | newest
        taken = [run for run in newest.values() if _takes(run, trigger, state)]
        if len(taken) >= limit:
            break
    taken = [run for run in newest.values() if _takes(run, trigger, state)]
    taken.sort(key=lambda run: run["recorded_at"], reverse=True)
    return taken[:limit]


def run_by_id(connection: Connection, run_id: str, progress: Progress | None = None) -> Found | None:
    """The newest record of a run: its key says in which partition."""
    scan = Scan(connection, progress)
    topic, key = connection.topics.runs, run_id.encode()
    for window in scan.backwards(topic, scan.home(topic, run_id)):
        found = [record for record in scan.records(window) if record.key == key]
        if found:
            return _decoded(connection, found[-1])
    return None


def _decoded(connection: Connection, record: Record) -> Found | None:
    try:
        return Found(record, connection.codec.decode("Run", record.value)) if record.value else None
    except Poison:
        return None


def _takes(run: Found, trigger: str | None, state: str | None) -> bool:
    return trigger in (None, run["trigger"]) and state in (None, run["state"])

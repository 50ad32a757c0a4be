"""The local engine's memory: a file of JSON lines in which each run id appears once.

The file is the truth and what people look at. Beside it lies an index (SQLite) of the ids, so that a
million runs cost no memory; it is brought up to date from the file before each use, and can be deleted.
Several processes may share the file: a lock beside it makes look-up and append one step.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunLog:
    """Append-once, by run id."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = os.open(
            path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        self._index = sqlite3.connect(path.with_name(path.name + ".index"), isolation_level=None, timeout=10)
        with self._locked():
            self._index.execute("PRAGMA synchronous=OFF")
            self._index.execute("PRAGMA journal_mode=MEMORY")
            self._index.execute("CREATE TABLE IF NOT EXISTS seen (run_id TEXT PRIMARY KEY) WITHOUT ROWID")
            self._index.execute("CREATE TABLE IF NOT EXISTS place (only INTEGER PRIMARY KEY, bytes INTEGER)")

    def close(self) -> None:
        self._index.close()
        os.close(self._file)
        os.close(self._lock)

    def has(self, run_id: str) -> bool:
        """Whether the file has this run, whoever wrote it."""
        with self._locked():
            self._catch_up()
            return self._known(run_id)

    def append(self, run_id: str, line: dict[str, object]) -> bool:
        """Write a run's line. False: it was there, and nothing is written."""
        with self._locked():
            self._catch_up()
            if self._known(run_id):
                return False
            data = json.dumps({"run_id": run_id, **line}, separators=(",", ":")).encode() + b"\n"
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes fit; is the disk full?")
            return True

    def _known(self, run_id: str) -> bool:
        return self._index.execute("SELECT 1 FROM seen WHERE run_id=?", (run_id,)).fetchone() is not None

    def _catch_up(self) -> None:
        """Index what was appended since: by us, by another process, or before a crash."""
        size = os.fstat(self._file).st_size
        row = self._index.execute("SELECT bytes FROM place").fetchone()
        place = row[0] if row else 0
        if place == size:
            return
        self._index.execute("BEGIN")
        if place > size:
            self._index.execute("DELETE FROM seen")
            place = 0
        for line in self._lines(place, size):
            place += len(line)
            if not line.endswith(b"\n"):
                # A process died inside its write. Half a line is no run: it goes.
                place -= len(line)
                os.ftruncate(self._file, place)
                break
            try:
                run_id = json.loads(line)["run_id"]
            except (ValueError, KeyError, TypeError):
                continue
            self._index.execute("INSERT OR IGNORE INTO seen VALUES (?)", (str(run_id),))
        self._index.execute("INSERT OR REPLACE INTO place VALUES (0, ?)", (place,))
        self._index.execute("COMMIT")

    def _lines(self, place: int, size: int) -> Iterator[bytes]:
        rest = b""
        while place < size:
            block = os.pread(self._file, min(1 << 20, size - place), place)
            if not block:
                break
            place += len(block)
            *whole, rest = (rest + block).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if rest:
            yield rest

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

"""Download progress: one line that is redrawn on a terminal, a plain line a second elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

MB = 1_000_000


class Cancelled(Exception):
    """Another download failed, or a person pressed Ctrl-C."""


class Progress:
    """Counts bytes and files from any thread; prints while its context lasts."""

    def __init__(self, what: str, total_bytes: int, total_files: int, out: TextIO | None = None) -> None:
        self._what = what
        self._total_bytes, self._total_files = total_bytes, total_files
        self._bytes = self._files = 0
        self._cancelled = False
        self._lock = threading.Lock()
        self._out = out or sys.stderr
        self._tty = self._out.isatty()
        self._done = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._print_until_done, daemon=True)

    def cancel(self) -> None:
        self._cancelled = True

    def advance(self, count: int) -> None:
        if self._cancelled:
            raise Cancelled
        with self._lock:
            self._bytes += count

    def finish_file(self) -> None:
        with self._lock:
            self._files += 1

    def line(self) -> str:
        percent = min(100, self._bytes * 100 // max(1, self._total_bytes))
        return (
            f"{self._what}: {self._bytes / MB:.0f} of {self._total_bytes / MB:.0f} MB ({percent} %), "
            f"{self._files} of {self._total_files} files, {time.monotonic() - self._started:.0f} s"
        )

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._write(self.line(), end="\n")

    def _print_until_done(self) -> None:
        while not self._done.wait(0.2 if self._tty else 1.0):
            self._write(self.line(), end="" if self._tty else "\n")

    def _write(self, line: str, end: str) -> None:
        self._out.write(("\r\x1b[K" if self._tty else "") + line + end)
        self._out.flush()

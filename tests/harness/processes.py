"""The processes under test. The nemesis may touch these, by their pids, and nothing else on the machine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from headgate.common.embedded.process import Process


class Child:
    """One service: its own process group, log and pid file; it can be killed and started again."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log = home / "logs" / f"{name}.log"
        self._pid_file = home / "pids" / f"{name}.pid"
        self._life: Process | None = None
        self.starts = 0
        self.kills = 0
        self.started_at = 0.0

    def start(self, **extra: str) -> None:
        """Start it, with more environment for this one life."""
        for path in (self.log, self._pid_file):
            path.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            log.write(f"--- start {self.starts + 1} {extra or ''}\n")
        self._life = Process(self.name, self.argv, log=self.log, env={**self.env, **extra})
        self._life.start()
        self._pid_file.write_text(str(self._life.pid))
        self.starts += 1
        self.started_at = time.monotonic()

    @property
    def life(self) -> Process:
        assert self._life is not None, f"{self.name} was never started"
        return self._life

    @property
    def pid(self) -> int:
        return self.life.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it ever did."""
        return self._life.exit_code if self._life else None

    @property
    def running(self) -> bool:
        return self._life is not None and self._life.running

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9 to its group, and see it gone."""
        if self.running:
            self.kills += 1
        if self._life:
            self._life.kill()

    def stop(self, seconds: float = 40.0) -> int | None:
        """SIGTERM, and SIGKILL when the time is up; its exit code."""
        if self._life:
            self.signal(signal.SIGCONT)
            self._life.stop(seconds)
        return self.exit_code

    def rss_bytes(self) -> int:
        """Resident memory; 0 when it is not running."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss) if self.running else 0
        except psutil.Error:
            return 0

    def tail(self, lines: int = 200) -> str:
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def module(name: str, *arguments: str) -> list[str]:
    """How to run a Python module with this interpreter."""
    return [sys.executable, "-m", name, *arguments]

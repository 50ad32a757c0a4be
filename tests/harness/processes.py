"""The processes under test. The nemesis may touch these, by their pids, and nothing else on the machine."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    """Ask the kernel to end this child when the harness dies, even by kill -9."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """One service process: its own process group, log and pid file; can be killed and started again."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log = home / "logs" / f"{name}.log"
        self._pid_file = home / "pids" / f"{name}.pid"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.kills = 0
        self.started_at = 0.0

    def start(self, **extra: str) -> None:
        """Start it, with more environment for this one life."""
        for path in (self.log, self._pid_file):
            path.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            out.write(f"--- start {self.starts + 1} {extra}\n".encode())
            out.flush()
            self._process = subprocess.Popen(
                self.argv,
                env={**os.environ, **self.env, **extra},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._pid_file.write_text(str(self._process.pid))
        self.starts += 1
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs (or was never started)."""
        return self._process.poll() if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until the kernel has taken it away."""
        if self.running:
            self.kills += 1
            os.killpg(self.pid, signal.SIGKILL)
        if self._process:
            self._process.wait(10)

    def stop(self, seconds: float = 40.0) -> int | None:
        """SIGTERM and wait; kill -9 when it does not go. Returns its exit code, None if it had to be killed."""
        if not self.running:
            return self.exit_code
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait(10)
            return None

    def rss_bytes(self) -> int:
        """Resident memory; 0 when it is not running."""
        if not self.running:
            return 0
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def tail(self, lines: int = 200) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])


def module(name: str, *arguments: str) -> list[str]:
    """How to run a Python module with this interpreter."""
    return [sys.executable, "-m", name, *arguments]

"""A child process as a handle: start, wait until ready, stop, kill; its output goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headgate.common.errors import HeadgateError

LAUNCHER = Path(__file__).with_name("launch.py")
TAIL_BYTES = 4096

# A child dies with the *thread* that started it, so all are started by one that lives as long as we do.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-spawner")


class ProcessFailed(HeadgateError):
    """A child ended, or was not ready in time. The text carries the end of its log."""


class Process:
    """One child in a process group of its own, killed by the kernel should we die.

    `start` after an end starts it anew; the log file is appended to.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ProcessFailed(f"{self.name} has not been started")
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs (or before it did); negative: the signal that ended it."""
        return None if self._child is None else self._child.poll()

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.running:
            raise ProcessFailed(f"{self.name} already runs as process {self.pid}")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self._log_start = out.tell()
            command = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *self.command]
            self._child = _spawner.submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            ).result()

    def wait_ready(self, check: Callable[[], bool], seconds: float) -> None:
        """Return when `check` does say yes; ProcessFailed when the child ends first, or the time does."""
        deadline = time.monotonic() + seconds
        while not check():
            if not self.running:
                raise ProcessFailed(f"{self.name} {self.ending} before it was ready.{self._why()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready within {seconds:.0f} s.{self._why()}")
            time.sleep(0.05)

    def wait(self, seconds: float) -> bool:
        """True when it has ended within the time."""
        if self._child is not None:
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
        return True

    def terminate(self) -> None:
        """Ask it to end (SIGTERM); returns at once."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and its whole group now (SIGKILL), and see it gone."""
        if self._child is None:
            return
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def stop(self, seconds: float = 10.0) -> None:
        """SIGTERM, and SIGKILL when the time is up."""
        self.terminate()
        if not self.wait(seconds):
            self.kill()

    @property
    def ending(self) -> str:
        """'ended with code 3', 'was killed by SIGKILL', or 'runs'."""
        code = self.exit_code
        if code is None:
            return "runs"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"

    def tail(self, lines: int = 12) -> list[str]:
        """The last lines it wrote since its latest start."""
        try:
            with self.log.open("rb") as text:
                size = text.seek(0, os.SEEK_END)
                text.seek(max(self._log_start, size - TAIL_BYTES))
                return text.read().decode("utf-8", "replace").splitlines()[-lines:]
        except OSError:
            return []

    def _why(self) -> str:
        tail = self.tail()
        if not tail:
            return f" Its log {self.log} is empty."
        return f" The end of its log {self.log}:\n" + "\n".join(f"    {line}" for line in tail)

"""Keep one child process running: start, watch, say why it ended, start again after a growing pause."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from headgate.cli.dev.probe import Probe
from headgate.common.embedded.process import Process

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""One that ran so long had recovered: its next end counts as the first again."""

WATCH_SECONDS = 0.1
HEALTH_SECONDS = 2.0
PATIENCE_SECONDS = 30.0
"""After so long a person wants to hear what it waits for."""

TAIL_LINES = 60
JAVA_STACK = ("at ", "... ")
"""How the lines begin that follow the reason."""

Say = Callable[[str, str], None]
"""Who, and what about it."""


def pause_after(failures: int) -> float:
    """Half a second after the first end in a row, doubling up to half a minute."""
    return float(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (failures - 1)))


def count_failures(failures: int, ran_seconds: float) -> int:
    """Ends in a row, with one that came just now."""
    return 1 if ran_seconds >= STEADY_SECONDS else failures + 1


@dataclass(frozen=True)
class Pace:
    """How often to look; tests look more often."""

    watch: float = WATCH_SECONDS
    health: float = HEALTH_SECONDS
    patience: float = PATIENCE_SECONDS
    pause: Callable[[int], float] = pause_after


class Keeper:
    """One child and its one line on the screen."""

    def __init__(
        self,
        process: Process,
        probe: Probe,
        say: Say,
        *,
        address: str = "",
        changed: Callable[[], None] = lambda: None,
        pace: Pace | None = None,
    ) -> None:
        self.process = process
        self.address = address
        self.restarts = 0
        self.ready = asyncio.Event()
        self.wrong: str | None = "starting"
        """What it last said to be waiting for."""
        self._probe, self._say, self._changed = probe, say, changed
        self._pace = pace or Pace()

    @property
    def name(self) -> str:
        return self.process.name

    async def run(self) -> None:
        """For ever; cancel it to stop keeping (the process itself is stopped by its owner)."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                if not self.process.running:
                    self.process.start()
            except OSError as problem:  # no room for its log, or no process left to have
                self.wrong = why = f"cannot be started: {problem.strerror}"
            else:
                self._changed()
                await self._watch(started)
                self.wrong = self.process.ending
                why = f"{self.wrong}{self._last_words()}"
            failures = count_failures(failures, time.monotonic() - started)
            self.restarts += 1
            pause = self._pace.pause(failures)
            self._say(self.name, f"{why}; starting again in {pause:g} s")
            await asyncio.sleep(pause)

    async def _watch(self, started: float) -> None:
        """Until it ends. Says when it is ready, when it ceases to be, and when it is again."""
        self.ready.clear()
        was_ready, patience = False, started + self._pace.patience
        look_again = started
        while self.process.running:
            now = time.monotonic()
            if now >= look_again:
                wrong = self.wrong = await self._probe()
                if not self.process.running:
                    break  # what answered was not ours
                if wrong is None and not self.ready.is_set():
                    how = "ready again" if was_ready else f"ready in {time.monotonic() - started:.1f} s"
                    self._say(self.name, f"{how}  {self.address}".rstrip())
                    self.ready.set()
                    was_ready = True
                elif wrong is not None and self.ready.is_set():
                    self._say(self.name, f"not ready: {wrong}")
                    self.ready.clear()
                    patience = now + self._pace.patience
                elif wrong is not None and now > patience:
                    self._say(self.name, f"still not ready: {wrong}; its log is {self.process.log}")
                    patience = now + self._pace.patience
                look_again = now + (self._pace.health if self.ready.is_set() else self._pace.watch)
            await asyncio.sleep(self._pace.watch)

    def _last_words(self) -> str:
        """Why, in its own words; somebody else's kill -9 leaves it none."""
        if self.process.exit_code == -signal.SIGKILL:
            return ""
        tail = [line.strip() for line in self.process.tail(TAIL_LINES) if line.strip()]
        told = [line for line in tail if not line.startswith(JAVA_STACK)] or tail
        return f" ({told[-1][:160]})" if told else ""

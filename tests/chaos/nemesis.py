"""Kills, pauses and restarts of the harness's own children, drawn from a seed and written into the history."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.history import History
from tests.harness.pipeline import MODULES, Pipeline
from tests.harness.processes import Child
from tests.harness.waiting import Missed, until

ROOT = Path(__file__).parents[2]
EXIT_CODE = 137
_POINT = re.compile(r"""failpoint\(\s*["']([a-z0-9_.-]+)["']""")


def failpoints(kind: str) -> list[str]:
    """The fail points a service has, read from its source: a new one is tried without anybody adding it here."""
    folder = ROOT / "services" / MODULES[kind].removeprefix("headgate.").replace("_", "-") / "src"
    own = {name for path in folder.rglob("*.py") for name in _POINT.findall(path.read_text("utf-8"))}
    if kind in ("poller", "cron"):
        shared = ROOT / "libs" / "common" / "src" / "headgate" / "common" / "sources"
        own |= {name for path in shared.rglob("*.py") for name in _POINT.findall(path.read_text("utf-8"))}
    return sorted(own)


@dataclass
class Nemesis:
    """Does harm to one pipeline, and remembers what and how long the recovery took."""

    pipeline: Pipeline
    history: History
    dice: random.Random
    recoveries: list[float] = field(default_factory=list)
    """Seconds from each kill until the process was ready again."""
    missed: list[str] = field(default_factory=list)
    """Fail points that were armed and never reached."""
    kills: int = 0
    exits: list[str] = field(default_factory=list)
    """Services that ended by themselves."""
    held: set[str] = field(default_factory=set)
    """Children that are down on purpose: nobody else may start them."""

    @contextlib.contextmanager
    def holding(self, child: Child) -> Iterator[None]:
        """Meanwhile the supervisor leaves it alone."""
        self.held.add(child.name)
        try:
            yield
        finally:
            self.held.discard(child.name)

    def note(self, what: str, **more: Any) -> None:
        self.history.write("nemesis", what, "info", **more)

    async def kill(self, child: Child, down: float = 0.0) -> None:
        """kill -9, stay down so long, start again; returns once it is started."""
        self.note("kill", victim=child.name, pid=child.pid)
        self.kills += 1
        with self.holding(child):
            await asyncio.to_thread(child.kill)
            await asyncio.sleep(down)
            child.start()

    async def kill_and_wait(self, child: Child, down: float = 0.0) -> None:
        began = time.monotonic()
        await self.kill(child, down)
        await self.pipeline.ready([child.name])
        self.recoveries.append(time.monotonic() - began)

    async def random_kills(
        self, victims: Sequence[Child], stop: asyncio.Event, pause: tuple[float, float]
    ) -> None:
        """One victim after the other until `stop`, pauses and down times drawn."""
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), self.dice.uniform(*pause))
            except TimeoutError:
                await self.kill_and_wait(self.dice.choice(list(victims)), self.dice.uniform(0.2, 3))

    async def die_at(self, child: Child, *points: tuple[str, int], seconds: float = 60.0) -> None:
        """Start it so that it ends itself at the nth passage of a fail point, one life for each; then for good."""
        with self.holding(child):
            await asyncio.to_thread(child.kill)
            for point, nth in points:
                child.start(FAILPOINT=f"{point}:{nth}")
                self.note("armed", victim=child.name, point=point, nth=nth)
                with contextlib.suppress(Missed):
                    await until(f"{child.name} reaches {point}", lambda: not child.running, seconds=seconds)
                if child.exit_code != EXIT_CODE:
                    self.missed.append(f"{child.name} at {point}:{nth}, exit code {child.exit_code}")
                    await asyncio.to_thread(child.kill)
                self.kills += 1
                self.note("died", victim=child.name, point=point, code=child.exit_code)
            began = time.monotonic()
            child.start()
        await self.pipeline.ready([child.name])
        self.recoveries.append(time.monotonic() - began)

    async def pause(self, child: Child, seconds: float) -> None:
        """SIGSTOP, so long, SIGCONT: a process that believes no time has passed."""
        self.note("pause", victim=child.name, seconds=seconds)
        child.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            child.signal(signal.SIGCONT)
        self.note("continue", victim=child.name)

"""What a scenario is: the doors events come by, the harm that is done meanwhile, and what else must hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.nemesis import Nemesis
from tests.harness.collect import Extra
from tests.harness.history import History
from tests.harness.load import Load
from tests.harness.observers import Sampler, TopicReader
from tests.harness.pipeline import Pipeline, documents
from tests.harness.plan import PUSHED, Door, Plan, Poison, Shares
from tests.harness.processes import Child


class Skipped(Exception):
    """This machine cannot run the scenario; the text says why. Never counted as passed."""


@dataclass
class Round:
    """One seed of one scenario, while it runs."""

    pipeline: Pipeline
    reader: TopicReader
    sampler: Sampler
    plan: Plan
    history: History
    load: Load
    nemesis: Nemesis
    dice: random.Random
    events: int
    findings: dict[str, list[str]] = field(default_factory=dict)
    """What the scenario itself found broken, by name."""
    figures: dict[str, Any] = field(default_factory=dict)
    extra: Extra = field(default_factory=Extra)
    pages: dict[str, str] = field(default_factory=dict)
    """What each service said of itself when something did not come true in time."""

    @property
    def seed(self) -> int:
        return self.plan.seed

    def services(self, *kinds: str) -> list[Child]:
        return [child for kind in kinds for child in self.pipeline.of(kind)]

    def broken(self, name: str, what: str) -> None:
        self.findings.setdefault(name, []).append(what)


async def nothing(_: Round) -> None:
    """No harm."""


Step = Callable[[Round], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    disturb: Step
    """Runs while events are sent; events are sent for as long as it runs."""
    after: Step = nothing
    """Runs when everything was handled once; then all is waited for again."""
    doors: tuple[Door, ...] = PUSHED
    poisons: tuple[Poison, ...] = tuple(Poison)
    shares: Shares = field(default_factory=Shares)
    brokers: int = 1
    events: int = 350
    rate: float = 50.0
    replicas: Mapping[str, int] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    documents: Callable[..., list[dict[str, Any]]] = documents
    once_each: bool = False
    """Nothing is killed, so that not even a dead letter may be written twice."""
    drain_seconds: float = 90.0
    supports: Callable[[Path], None] = lambda _: None
    """Raises Skipped where the machine lacks something."""
    opening: Step | None = None
    """Runs once per stage before the first round."""
    own_cluster: bool = False
    """Harms brokers or registry in ways that later scenarios should not inherit."""
    launchers: Mapping[str, Sequence[str]] = field(default_factory=dict)

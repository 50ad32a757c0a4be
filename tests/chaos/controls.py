"""Known-bad modes: the pipeline with one guarantee taken out. A suite that stays green on these sees nothing.

Each is a launcher of its own in `broken/`, which replaces one function of a service before it runs: the product has
no switch for any of this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.chaos.catalogue import scenarios
from tests.chaos.scenario import Scenario
from tests.harness.processes import module


@dataclass(frozen=True)
class Control:
    scenario: Scenario
    wanted: frozenset[str]
    """Any of these findings says that the mode was seen for what it is."""
    runs: int = 5
    events: int | None = None


def broken(scenario: str, kind: str, mode: str, *wanted: str, runs: int = 5) -> Control:
    """A scenario with the service of this kind replaced by its broken form."""
    launcher = module(f"tests.chaos.broken.{mode}")
    known = scenarios()[scenario]
    return Control(replace(known, launchers={kind: launcher}), frozenset(wanted), runs)


CONTROLS: dict[str, Control] = {}

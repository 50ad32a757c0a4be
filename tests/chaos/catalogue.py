"""The scenarios are the modules of `scenarios/`: whoever adds a file has added it to the suite."""

from __future__ import annotations

import importlib
import pkgutil

import tests.chaos.scenarios
from tests.chaos.scenario import Scenario


def scenarios() -> dict[str, Scenario]:
    """All of them by name, in the order of their numbers."""
    found: dict[str, Scenario] = {}
    for module in pkgutil.iter_modules(tests.chaos.scenarios.__path__):
        scenario: Scenario = importlib.import_module(f"tests.chaos.scenarios.{module.name}").SCENARIO
        assert scenario.name not in found, f"two modules call themselves {scenario.name}"
        found[scenario.name] = scenario
    return dict(sorted(found.items(), key=lambda item: int(item[0][1:])))

"""Engines: where runs are started. One module each, named as the trigger's `action` names it.

A module has a class `Engine` with the verb `start(run)`. Starting the same run id twice must start one
run: every engine passes the id on as its idempotency key. A new engine is a new module here and its
model in `headgate.common.model.actions`; nothing else knows their names.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.common.errors import Misconfigured
from headgate.common.model import Action
from headgate.common.producer import Producer
from headgate.common.templates import values
from headgate.common.topics import Topics
from headgate.runner.settings import RunnerSettings


@dataclass(frozen=True)
class Run:
    """A run as an engine sees it."""

    run_id: str
    trigger: str
    trigger_revision: int
    action: Any
    """The engine's own part of the trigger's action: HttpAction, LocalAction, ..."""
    event: Mapping[str, Any]
    """What conditions see of it, and when it was received."""
    traceparent: str

    @property
    def context(self) -> dict[str, Any]:
        """What its templates speak of."""
        run = {"id": self.run_id, "trigger": self.trigger, "revision": self.trigger_revision}
        return {"event": values(dict(self.event)), "run": values(run)}


@dataclass(frozen=True)
class Started:
    """The engine accepted the run."""

    handle: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Exists:
    """The engine has this run id already: as good as started."""

    handle: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Refused:
    """The engine will never accept this as it is: a person has to look."""

    reason: str
    code: str = "engine-refused"
    next: str = "correct the trigger's action or the engine, then: headgate dlq replay"
    answer: str = ""


@dataclass(frozen=True)
class Retry:
    """It may work later. Nobody knows whether the run was started: the id makes asking again safe."""

    reason: str
    after_seconds: float | None = None
    """What the engine asked for, if it did."""
    answer: str = ""


Outcome = Started | Exists | Refused | Retry


@dataclass(frozen=True)
class Means:
    """What engines are made from."""

    settings: RunnerSettings
    topics: Topics
    producer: Producer


class Engine(Protocol):
    """What each module's `Engine` class is. Made inside the running loop, once per process."""

    def __init__(self, means: Means) -> None: ...

    async def start(self, run: Run) -> Outcome:
        """Start a run, or say why not. Never raises for what the outside world does; may be cancelled."""
        ...

    async def close(self) -> None: ...


def names() -> list[str]:
    """The engines there are: the modules of this package."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(means: Means) -> dict[str, Engine]:
    """Every engine, by name. An engine without a model, or the reverse, stops the start."""
    modelled = set(Action.model_fields)
    if modelled != set(names()):
        raise Misconfigured(
            f"engines and action models differ: {', '.join(sorted(modelled ^ set(names())))}; each module in "
            "headgate/runner/engines needs a field of its name in headgate.common.model.Action"
        )
    return {name: importlib.import_module(f"{__name__}.{name}").Engine(means) for name in names()}


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def excerpt(text: str, secrets: tuple[str, ...] = (), limit: int = 500) -> str:
    """An engine's words, fit for a topic: without our secrets, on one line, short, and text: a header's stray
    bytes and JSON's half characters (`"\\ud800"`) are none, and a record with them could never be written."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    text = _CONTROL.sub(" ", text).strip().encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"

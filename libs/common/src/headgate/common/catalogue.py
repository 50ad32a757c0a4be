"""Which providers there are. A service's plug-in folder is its list; this finds the folders of all.

Each service names its folder under the entry point group `headgate.providers`; so may packages of
other people. The entry point is a function that returns the providers of its folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Literal

from pydantic import BaseModel

from headgate.common.errors import Invalid, Misconfigured
from headgate.common.model import SourceSpec

GROUP = "headgate.providers"


@dataclass(frozen=True)
class Provider:
    """One plug-in, as far as anyone outside its service needs to know it."""

    name: str
    """What users write as `provider:`."""
    shape: Literal["hook", "poll", "schedule", "stream"]
    service: str
    config: type[BaseModel]
    doc: str
    module: str
    needs_schedule: bool = False
    check: Callable[[SourceSpec], object] | None = None
    """What only the service knows of a source as written; Misconfigured("schedule.cron: why") refuses it."""


def modules_in(package: ModuleType) -> list[ModuleType]:
    """Every module of a plug-in folder: the folder is the registry."""
    names = sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")
    )
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def plug_ins(package: ModuleType, attribute: str) -> dict[str, Any]:
    """The `attribute` object of each module of a folder, by its `.name`. Two of one name stop start-up."""
    found: dict[str, Any] = {}
    where: dict[str, str] = {}
    for module in modules_in(package):
        plug_in = getattr(module, attribute, None)
        if plug_in is None:
            raise Misconfigured(f"{module.__name__} is in a plug-in folder and defines no {attribute}")
        if plug_in.name in found:
            raise Misconfigured(
                f"{module.__name__} and {where[plug_in.name]} both call themselves {plug_in.name!r}; rename one"
            )
        found[plug_in.name] = plug_in
        where[plug_in.name] = module.__name__
    return found


@cache
def providers() -> dict[str, Provider]:
    """Every provider that is installed, by name."""
    found: dict[str, Provider] = {}
    for point in entry_points(group=GROUP):
        listed: Iterable[Provider] = point.load()()
        for provider in listed:
            if provider.name in found:
                raise Misconfigured(
                    f"{provider.module} and {found[provider.name].module} both provide {provider.name!r}; remove one"
                )
            found[provider.name] = provider
    return found


def provider(name: str) -> Provider:
    """The provider of this name. Invalid says which names there are."""
    known = providers()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known))}, events"
    raise Invalid(f"there is no provider {name!r}; {hint}")

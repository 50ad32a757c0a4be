"""What an apply or a delete will do, decided before anything is written. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.common.fingerprints import uid
from headgate.common.model import Source, Stored, Trigger

from .errors import Refused
from .problems import Problem, did_you_mean
from .store import AnyStored, Kind, State
from .validate import Wanted

Action = Literal["created", "changed", "unchanged", "deleted"]


@dataclass(frozen=True)
class Change:
    """One document's fate. `owner` is set for a source that stands inside a trigger."""

    action: Action
    kind: Kind
    name: str
    stored: AnyStored | None
    owner: str | None = None

    @property
    def revision(self) -> int:
        return self.stored.revision if self.stored else 0


@dataclass(frozen=True)
class Plan:
    """Changes in the order in which they are written: sources first, so that no trigger waits for its own."""

    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Author:
    """Whose revision it becomes, and when (microseconds since 1970)."""

    prefix: str
    name: str
    now_micros: int


def plan(wanted: list[Wanted], state: State, author: Author) -> Plan:
    """Judges valid documents together with what is there, and says what would be written."""
    problems = _named_twice(wanted)
    if problems:
        return Plan(problems=problems)
    asked = {one.name: one for one in wanted if one.kind == "Trigger"}
    triggers = {name: stored.spec for name, stored in state.triggers.items()}
    triggers |= {name: one.spec for name, one in asked.items() if isinstance(one.spec, Trigger)}
    owned, problems = _owned_sources(asked, triggers)
    declared, taken = _declared_sources(wanted, state, owned)
    problems += taken
    declared_now = {name for name, stored in state.sources.items() if stored.spec.metadata.trigger is None}
    for name, (trigger, _) in owned.items():
        if name in declared or name in declared_now:
            problems.append(_taken(asked.get(trigger), trigger, name, "a source declared on its own"))
    there = owned.keys() | declared.keys() | declared_now
    problems += _missing_sources(asked, there)
    gone = {
        name: str(stored.spec.metadata.trigger)
        for name, stored in state.sources.items()
        if stored.spec.metadata.trigger in asked and name not in there
    }
    problems += _still_used(gone, triggers, asked)
    changes = [_change("Source", s, state, author, t) for s_name, (t, s) in owned.items() if t in asked]
    changes += [_change("Source", spec, state, author) for spec in declared.values()]
    changes += [_change("Trigger", one.spec, state, author) for one in asked.values()]
    changes += [Change("deleted", "Source", name, None, owner) for name, owner in sorted(gone.items())]
    return Plan(changes, problems)


def _named_twice(wanted: list[Wanted]) -> list[Problem]:
    first: dict[tuple[Kind, str], Wanted] = {}
    problems = []
    for one in wanted:
        before = first.setdefault((one.kind, one.name), one)
        if before is not one:
            at = ("metadata", "name")
            where = f"{before.document.file}:{before.document.line(at)}"
            problems.append(
                one.problem(at, f"{one.kind} {one.name} is also written at {where}", "rename one of them")
            )
    return problems


def _owned_sources(
    asked: dict[str, Wanted], triggers: dict[str, Trigger]
) -> tuple[dict[str, tuple[str, Source]], list[Problem]]:
    """The sources that stand inside triggers, by name, with the trigger; and names that clash."""
    owned: dict[str, tuple[str, Source]] = {}
    problems = []
    # Triggers that stay as they are have their names already: whoever comes now gives way.
    for name in sorted(triggers, key=lambda name: (name in asked, name)):
        for source in triggers[name].written_sources():
            if source.name in owned:
                problems.append(
                    _taken(asked.get(name), name, source.name, f"trigger {owned[source.name][0]}")
                )
                continue
            owned[source.name] = (name, source)
    return owned, problems


def _taken(one: Wanted | None, trigger: str, source: str, by: str) -> Problem:
    message = f"its source would be called {source}, which is the name of a source of {by}"
    if by.startswith("a source"):
        message = f"its source would be called {source}, which is the name of {by}"
    fix = f"give it another with `name:`, or refer to that one with `source: {source}`"
    if one is None:
        return Problem(f"trigger {trigger}", 0, ("sources",), message, fix)
    assert isinstance(one.spec, Trigger)  # noqa: S101 - only triggers own sources
    index = one.spec.source_names().index(source)
    return one.problem(("sources", index), message, fix)


def _declared_sources(
    wanted: list[Wanted], state: State, owned: dict[str, tuple[str, Source]]
) -> tuple[dict[str, Source], list[Problem]]:
    """Source documents of their own. One that stands in a trigger is accepted only if it says the same."""
    declared: dict[str, Source] = {}
    problems = []
    for one in wanted:
        if not isinstance(one.spec, Source):
            continue
        owner = one.spec.metadata.trigger
        stored = state.sources.get(one.name)
        if owner is None:
            declared[one.name] = one.spec
        elif not (stored and same(stored.spec, one.spec)) and owned.get(one.name, ("",))[0] != owner:
            at = ("metadata", "trigger")
            problems.append(
                one.problem(
                    at, "is set by Headgate only", "remove it, or write the source inside that trigger"
                )
            )
        elif stored and not same(stored.spec, one.spec):
            at = ("metadata", "trigger")
            problems.append(one.problem(at, f"this source stands inside trigger {owner}", "edit it there"))
    return declared, problems


def _missing_sources(asked: dict[str, Wanted], there: Iterable[str]) -> list[Problem]:
    names = set(there)
    problems = []
    for one in asked.values():
        assert isinstance(one.spec, Trigger)  # noqa: S101 - only triggers are asked for here
        for index, written in enumerate(one.spec.sources):
            if written.source is not None and written.source not in names:
                fix = did_you_mean(written.source, names) if names else "declare it with `kind: Source`"
                at = ("sources", index, "source")
                problems.append(one.problem(at, f"there is no source {written.source}", fix))
    return problems


def users_of(source: str, triggers: Iterable[Trigger]) -> list[str]:
    """The triggers that refer to a source by its name."""
    return sorted(t.name for t in triggers if any(written.source == source for written in t.sources))


def _still_used(
    gone: dict[str, str], triggers: dict[str, Trigger], asked: dict[str, Wanted]
) -> list[Problem]:
    problems = []
    for name, owner in gone.items():
        users = [user for user in users_of(name, triggers.values()) if user not in asked]
        if users:
            message = f"its source {name} would go, and {_triggers(users)} still listen{'s' * (len(users) == 1)} to it"
            fix = "edit that first, or declare the source on its own"
            problems.append(asked[owner].problem(("sources",), message, fix))
    return problems


def _triggers(names: list[str]) -> str:
    return f"trigger{'s' * (len(names) > 1)} {', '.join(names)}"


def _change(
    kind: Kind, spec: Trigger | Source, state: State, author: Author, owner: str | None = None
) -> Change:
    before = state.of(kind).get(spec.name)
    if before is not None and same(before.spec, spec):
        return Change("unchanged", kind, spec.name, before, owner)
    stored: Stored[Any] = Stored(
        name=spec.name,
        uid=uid(author.prefix, kind.lower(), spec.name),
        revision=before.revision + 1 if before else 1,
        updated_at=author.now_micros,
        updated_by=author.name,
        spec=spec,
    )
    return Change("changed" if before else "created", kind, spec.name, stored, owner)


def same(one: Trigger | Source, other: Trigger | Source) -> bool:
    """Whether two documents say the same, whatever the order of their fields."""
    return plain(one) == plain(other)


def plain(spec: Trigger | Source) -> dict[str, Any]:
    """A document as data, as it was written: what `get -o yaml` prints and `apply -f` reads."""
    head = {"apiVersion": spec.api_version, "kind": spec.kind}
    data: dict[str, Any] = json.loads(spec.model_dump_json(by_alias=True, exclude_unset=True))
    return head | data


def plan_deletion(kind: Kind, names: list[str], state: State) -> Plan:
    """Deleting triggers takes their sources along. Refused when something still depends on one."""
    leaving = set(names) if kind == "Trigger" else set()
    staying = [stored.spec for name, stored in state.triggers.items() if name not in leaving]
    doomed: dict[str, str | None] = {}
    for name, stored in state.sources.items():
        owner = stored.spec.metadata.trigger
        if kind == "Source" and name in names:
            if owner is not None and owner in state.triggers:
                raise Refused(
                    f"source {name} stands inside trigger {owner}: remove it there and apply, or delete trigger {owner}"
                )
            doomed[name] = None
        elif owner in leaving:
            doomed[name] = owner
    for name in doomed:
        users = users_of(name, staying)
        if users:
            raise Refused(
                f"source {name} is still used by {_triggers(users)}: edit or delete that first. Nothing was deleted"
            )
    changes = [Change("deleted", "Trigger", name, None) for name in names if kind == "Trigger"]
    changes += [Change("deleted", "Source", name, None, owner) for name, owner in sorted(doomed.items())]
    return Plan(changes)

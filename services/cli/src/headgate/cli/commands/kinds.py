"""headgate get, describe, delete: triggers and sources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.common.control.errors import NotFound
from headgate.common.errors import Misconfigured

from ..everywhere import command
from ..output import Column, View, dump_yaml, show_all, show_one
from ..session import Format, Session
from .apply import DryRun, show_changes
from .common import age, clock, confirm, plural, short

if TYPE_CHECKING:
    from headgate.common.control.store import AnyStored, Kind, State

PANEL = "Triggers and sources"
Names = Annotated[list[str] | None, typer.Argument(help="Names, or trigger/NAME; all when none is given.")]
KindName = Annotated[str, typer.Argument(metavar="triggers|sources", help="What: triggers or sources.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    command(app, "get", rich_help_panel=PANEL)(get)
    command(app, "describe", rich_help_panel=PANEL)(describe)
    command(app, "delete", rich_help_panel=PANEL)(delete)


def kind_of(word: str) -> Kind:
    """`triggers`, `trigger`, `tr`, `sources`, `source`, `src`, in any case."""
    plain = word.lower()
    if plain in ("triggers", "trigger", "tr"):
        return "Trigger"
    if plain in ("sources", "source", "src"):
        return "Source"
    raise typer.BadParameter(f"{word!r} is neither triggers nor sources", param_hint="KIND")


def get(session: Session, kind: KindName, name: Names = None) -> None:
    """List triggers or sources; -o yaml prints what `apply -f` reads.

    [bold]headgate get triggers[/bold]
    [bold]headgate get trigger page-triage -o yaml > page.yaml[/bold]
    """
    chosen, state = _chosen(session, kind_of(kind), name)
    view = _trigger_view() if kind_of(kind) == "Trigger" else _source_view(state)
    if name and len(name) == 1 and session.output is not Format.table:
        show_one(session, chosen[0], view)
        return
    show_all(
        session, chosen, view, f"There are no {kind_of(kind).lower()}s: `headgate apply -f FILE` makes one."
    )


def describe(session: Session, kind: KindName, name: Names = None) -> None:
    """Everything about a trigger or source: revision, what it listens to, who uses it, and its YAML.

    [bold]headgate describe trigger page-triage[/bold]
    """
    from headgate.common.control.plan import plain

    chosen, state = _chosen(session, kind_of(kind), name)
    if session.output is not Format.table:
        show_all(session, chosen, _describe_view(kind_of(kind), state), "nothing to describe")
        return
    for number, stored in enumerate(chosen):
        lines = [f"{kind_of(kind)} {stored.name}"]
        lines += [f"  {title:<10} {text}" for title, text in _facts(kind_of(kind), stored, state).items()]
        lines += ["", *("  " + line for line in dump_yaml([plain(stored.spec)]).splitlines())]
        session.out.print(("\n" if number else "") + "\n".join(lines), markup=False)


def delete(
    session: Session, kind: KindName, name: Names = None, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Delete triggers or sources. A trigger's own sources go with it; a source in use stays.

    [bold]headgate delete trigger page-triage[/bold]
    """
    from headgate.common.control.apply import delete as control_delete

    if not name:
        raise typer.BadParameter("say which, by name", param_hint="NAME")
    state = _state(session)
    names = _named(kind_of(kind), name, [*state.of(kind_of(kind)), *_unreadable(kind_of(kind), state)])
    planned = control_delete(session.connection, kind_of(kind), names, state, dry_run=True)
    if not dry_run:
        if len(planned) > 1:
            listed = ", ".join(f"{change.kind.lower()}/{change.name}" for change in planned)
            confirm(session, f"Delete {plural(len(planned), 'document')} ({listed})?", yes)
        planned = control_delete(session.connection, kind_of(kind), names, state)
    show_changes(session, planned)
    if dry_run:
        session.say("Dry run: nothing was deleted.")


def _chosen(session: Session, kind: Kind, names: list[str] | None) -> tuple[list[AnyStored], State]:
    state = _state(session)
    there = state.of(kind)
    lost = _unreadable(kind, state)
    wanted = _named(kind, names or sorted(there), [*there, *lost])
    for name in wanted:
        if name in lost:
            raise Misconfigured(
                f"{kind.lower()} {name} cannot be read: {state.unreadable[f'{kind.lower()}/{name}']}. "
                f"Apply it again, corrected, or: headgate delete {kind.lower()} {name}"
            )
    return [there[name] for name in wanted], state


def _state(session: Session) -> State:
    from headgate.common.control.store import read_state

    state = read_state(session.connection)
    for name, why in state.unreadable.items():
        session.say(f"warning: {name} cannot be read and is left out: {why}")
    return state


def _unreadable(kind: Kind, state: State) -> list[str]:
    start = f"{kind.lower()}/"
    return [name.removeprefix(start) for name in state.unreadable if name.startswith(start)]


def _named(kind: Kind, names: list[str], there: list[str]) -> list[str]:
    """Names as they were typed, `trigger/NAME` or `NAME`, each once; NotFound when there is none such."""
    from headgate.common.control.problems import did_you_mean

    wanted = list(dict.fromkeys(name.rpartition("/")[2] for name in names))
    for name in wanted:
        if name not in there:
            raise NotFound(f"there is no {kind.lower()} {name}; {did_you_mean(name, there)}")
    return wanted


def _updated(stored: AnyStored) -> datetime:
    return datetime.fromtimestamp(stored.updated_at / 1_000_000, UTC)


def _plain(stored: AnyStored) -> dict[str, Any]:
    from headgate.common.control.plan import plain

    return plain(stored.spec)


def _trigger_view() -> View[Any]:
    return View(
        columns=[
            Column("NAME", lambda t: t.name),
            Column("ON", lambda t: "yes" if t.spec.enabled else "no"),
            Column("SOURCES", lambda t: short(",".join(_listens_to(t)), 40), give=True),
            Column("WHEN", lambda t: short(t.spec.when or "always", 48), give=True),
            Column("ACTION", lambda t: t.spec.action.engine),
            Column("REV", lambda t: str(t.revision), right=True),
            Column("AGE", lambda t: age(_updated(t)), right=True),
        ],
        plain=_plain,
        name=lambda t: f"trigger/{t.name}",
    )


def _listens_to(trigger: Any) -> list[str]:
    """Names of its sources; other producers' events by what they must match."""
    found = []
    for index, written in enumerate(trigger.spec.sources):
        if written.provider == "events":
            match = written.match
            found.append(f"events:{match.source}:{match.type}" if match else "events:*")
        else:
            found.append(trigger.spec.source_name(index))
    return found


def _source_view(state: State) -> View[Any]:
    return View(
        columns=[
            Column("NAME", lambda s: s.name),
            Column("PROVIDER", lambda s: s.spec.provider),
            Column("SCHEDULE", lambda s: _schedule(s.spec.schedule)),
            Column("TRIGGERS", lambda s: short(",".join(_users(s.name, state)) or "-", 40), give=True),
            Column("REV", lambda s: str(s.revision), right=True),
            Column("AGE", lambda s: age(_updated(s)), right=True),
        ],
        plain=_plain,
        name=lambda s: f"source/{s.name}",
    )


def _schedule(schedule: Any) -> str:
    from headgate.common.model.durations import format_duration

    if schedule is None:
        return "-"
    return f"every {format_duration(schedule.every)}" if schedule.every else f"{schedule.cron} {schedule.tz}"


def _users(source: str, state: State) -> list[str]:
    return sorted(t.name for t in state.triggers.values() if source in t.spec.source_names())


def _facts(kind: Kind, stored: Any, state: State) -> dict[str, str]:
    by = f" by {stored.updated_by}" if stored.updated_by else ""
    facts = {
        "uid": stored.uid,
        "revision": f"{stored.revision}, written {clock(_updated(stored))} ({age(_updated(stored))} ago){by}",
    }
    if kind == "Trigger":
        facts["state"] = "enabled" if stored.spec.enabled else "off: its events are decided as `off`"
        facts["listens to"] = ", ".join(_listens_to(stored))
        return facts
    owner = stored.spec.metadata.trigger
    facts["provider"] = stored.spec.provider
    facts["written"] = f"inside trigger {owner}" if owner else "on its own"
    facts["used by"] = ", ".join(_users(stored.name, state)) or "no trigger: its events start nothing"
    if stored.spec.provider.endswith("-webhook") or stored.spec.provider == "standard-webhooks":
        facts["URL path"] = f"/webhooks/{stored.spec.provider.removesuffix('-webhook')}/{stored.name}"
    return facts


def _describe_view(kind: Kind, state: State) -> View[Any]:
    from headgate.common.control.plan import plain

    def everything(stored: Any) -> dict[str, Any]:
        facts = {"uid": stored.uid, "revision": stored.revision, "updated_at": _updated(stored)}
        users = {} if kind == "Trigger" else {"used_by": _users(stored.name, state)}
        return {
            "name": stored.name,
            **facts,
            "updated_by": stored.updated_by,
            **users,
            "spec": plain(stored.spec),
        }

    return View(columns=[], plain=everything, name=lambda stored: f"{kind.lower()}/{stored.name}")

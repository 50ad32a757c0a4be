"""headgate dlq: what could not be handled, and sending it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.common.control.errors import NotFound

from ..everywhere import command
from ..exits import FAILURE
from ..output import Column, View, show_all, show_one
from ..session import Format, Session
from .common import age, clock, confirm, moment_ms, plural, progress, short

if TYPE_CHECKING:
    from headgate.common.control.letters import Filter, Letter, Letters

STATES = {"waiting": "yellow", "replayed": "green", "discarded": "dim"}

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Letters by PARTITION/OFFSET, as list shows.")
]
Stage = Annotated[str | None, typer.Option(help="Only from this service: ingest, processor, runner, ...")]
Error = Annotated[str | None, typer.Option(help="Only with this error, or these words in its message.")]
Trigger = Annotated[str | None, typer.Option(help="Only for this trigger.")]
Since = Annotated[str | None, typer.Option(help="Dead-lettered since: 1h (ago), or a time.")]
Until = Annotated[str | None, typer.Option(help="Dead-lettered before.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Note = Annotated[str, typer.Option(help="Why, kept with the letter.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Dead letters: events that could not be handled. They keep their bytes, and can be replayed.",
        no_args_is_help=True,
    )
    command(group, "list")(list_letters)
    command(group, "show")(show)
    command(group, "replay")(replay)
    command(group, "discard")(discard)
    app.add_typer(group, name="dlq", rich_help_panel="What happened")


def list_letters(
    session: Session,
    stage: Stage = None,
    error: Error = None,
    trigger: Trigger = None,
    since: Since = None,
    until: Until = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also replayed and discarded ones.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 100,
) -> None:
    """Dead letters that wait for someone, newest first.

    [bold]headgate dlq list --stage runner --since 1h[/bold]
    [bold]headgate dlq list --error engine-refused -o jsonl[/bold]
    """
    wanted = _filter(None, stage, error, trigger, since, until, every)
    found = _find(session, wanted)
    found.sort(key=lambda letter: letter.record.timestamp_ms, reverse=True)
    empty = "No dead letters." if every else "No dead letters wait. --all shows replayed and discarded ones."
    show_all(session, found[:limit], VIEW, empty)
    if len(found) > limit:
        session.say(
            f"{plural(len(found), 'letter')}, the newest {limit} shown: --limit {len(found)} shows all."
        )


def show(
    session: Session,
    letter: Annotated[str, typer.Argument(metavar="ID", help="PARTITION/OFFSET, as list shows.")],
) -> None:
    """One dead letter: what went wrong, what to do, and the record itself.

    [bold]headgate dlq show 3/17[/bold]
    """
    found = _letters(session).get(letter)
    if found is None:
        raise NotFound(f"there is no dead letter {letter}; `headgate dlq list --all` shows those there are")
    if session.output is not Format.table:
        show_one(session, found, _full_view(session))
        return
    reason = found.reason
    came_from = f"{reason.topic}/{reason.partition}/{reason.offset}" if reason.topic else "not said"
    mark = found.mark
    lines = {
        "letter": found.record.coordinates,
        "state": found.state + (f" {clock(mark.at)} by {mark.by} {mark.note}".rstrip() if mark else ""),
        "failed at": f"{clock(found.failed_at)} ({age(found.failed_at)} ago), attempt {reason.attempt}",
        "stage": reason.stage,
        "error": f"{reason.code}: {reason.message}",
        "next": reason.next,
        "came from": came_from,
        "trigger": reason.trigger,
        "event": reason.event_id,
        "fingerprint": reason.fingerprint,
        "run": reason.run_id,
        "key": _text(found.record.key),
    }
    for title, text in lines.items():
        if text:
            session.out.print(f"{title:<12} {text}", markup=False)
    from headgate.common.deadletter import original_headers

    for name, value in original_headers(found.record.headers):
        session.out.print(f"{'header':<12} {name}: {_text(value)}", markup=False)
    session.out.print(f"\n{_body(session, found)}", markup=False)


def replay(
    session: Session,
    ids: Ids = None,
    stage: Stage = None,
    error: Error = None,
    trigger: Trigger = None,
    since: Since = None,
    until: Until = None,
    rate: Annotated[float, typer.Option(min=0.1, help="At most so many a second.")] = 100.0,
    again: Annotated[
        bool, typer.Option("--again", help="Also letters that were replayed or discarded.")
    ] = False,
    note: Note = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> None:
    """Send dead letters back to where they came from: each reaches its run once, however often you repeat it.

    First fix the cause, then:

    [bold]headgate dlq replay 3/17[/bold]                                 one letter
    [bold]headgate dlq replay --stage runner --error engine-refused[/bold]     counts, asks, replays
    [bold]headgate dlq replay --trigger page-triage --since 2h --rate 20 --yes[/bold]
    """
    from headgate.common.control.letters import Pace

    wanted = _filter(ids, stage, error, trigger, since, until, again)
    found = _settled_or_found(session, ids, wanted, "replay", again)
    letters = _letters(session)
    ready = [letter for letter in found if letters.stays(letter) is None]
    if ready and _agreed(session, ready, "Replay", yes, dry_run):
        _settle(session, "replayed", ready, lambda some: letters.replay(some, Pace(rate), note))
    left = [(letter, why) for letter in found if (why := letters.stays(letter))]
    left += [(letter, "too large for its topic with the headers of a replay") for letter in letters.too_large]
    if left:
        _left_alone(session, left)
        raise typer.Exit(FAILURE)


def _left_alone(session: Session, left: list[tuple[Letter, str]]) -> None:
    for why in dict.fromkeys(why for _, why in left):
        ids = [letter.id for letter, one in left if one == why]
        named = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        session.say(f"{plural(len(ids), 'letter')} left alone: {why} ({named}).")
    session.say("Produce such a letter by hand with kcat, then `headgate dlq discard` it.")


def discard(
    session: Session,
    ids: Ids = None,
    stage: Stage = None,
    error: Error = None,
    trigger: Trigger = None,
    since: Since = None,
    until: Until = None,
    note: Note = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> None:
    """Mark dead letters as not to be handled. They stay readable until their retention ends.

    [bold]headgate dlq discard 3/17 --note "test data"[/bold]
    """
    wanted = _filter(ids, stage, error, trigger, since, until, False)
    found = _settled_or_found(session, ids, wanted, "discard", False)
    if not found or not _agreed(session, found, "Discard", yes, dry_run):
        return
    _settle(session, "discarded", found, lambda some: _letters(session).discard(some, note))


def _letters(session: Session, told: Any = None) -> Letters:
    from headgate.common.control.letters import Letters
    from headgate.common.control.scan import Scan

    return Letters(session.connection, Scan(session.connection, told))


def _filter(
    ids: list[str] | None,
    stage: str | None,
    error: str | None,
    trigger: str | None,
    since: str | None,
    until: str | None,
    every: bool,
) -> Filter:
    from headgate.common.control.letters import Filter, coordinates_of

    for one in ids or ():
        if coordinates_of(one) is None:
            raise typer.BadParameter(
                f"{one!r} is no letter; write PARTITION/OFFSET, as list shows", param_hint="ID"
            )
    return Filter(
        ids=frozenset(ids or ()),
        stage=stage,
        error=error,
        trigger=trigger,
        since_ms=moment_ms(since, "--since"),
        until_ms=moment_ms(until, "--until"),
        states=frozenset() if every else frozenset({"waiting"}),
    )


def _find(session: Session, wanted: Filter) -> list[Letter]:
    with progress(session, "reading dead letters") as told:
        return list(_letters(session, told).find(wanted))


def _settled_or_found(
    session: Session, ids: list[str] | None, wanted: Filter, verb: str, again: bool
) -> list[Letter]:
    """The letters to work on; says so when there are none, or when they were dealt with before."""
    from dataclasses import replace

    everything = _find(session, replace(wanted, states=frozenset()))
    found = [letter for letter in everything if again or letter.state == "waiting"]
    settled = len(everything) - len(found)
    missing = len(set(ids or ())) - len(everything)
    if missing > 0:
        raise NotFound(
            f"{plural(missing, 'letter')} of those named cannot be found; `headgate dlq list --all` shows all"
        )
    if settled:
        states = sorted({letter.state for letter in everything if letter.state != "waiting"})
        more = "; --again does it all the same" if verb == "replay" else ""
        session.say(f"{plural(settled, 'letter')} skipped: already {' or '.join(states)}{more}.")
    if not found:
        session.say(f"Nothing to {verb}.")
    return found


def _agreed(session: Session, found: list[Letter], verb: str, yes: bool, dry_run: bool) -> bool:
    """Says how many of what, then asks."""
    kinds: dict[tuple[str, str, str], int] = {}
    for letter in found:
        key = (letter.reason.stage, letter.reason.code, letter.reason.topic)
        kinds[key] = kinds.get(key, 0) + 1
    for (stage, code, topic), count in sorted(kinds.items(), key=lambda item: -item[1])[:10]:
        session.say(f"{count:>7,}  {stage} {code}" + (f"  -> {topic}" if verb == "Replay" else ""))
    if dry_run:
        session.say(f"Dry run: {plural(len(found), 'letter')} would be taken, nothing was done.")
        return False
    confirm(session, f"{verb} {plural(len(found), 'letter')}?", yes)
    return True


def _settle(
    session: Session, word: str, found: list[Letter], settle: Callable[[Iterable[Letter]], Iterable[Letter]]
) -> None:
    done: list[Letter] = []
    with progress(session, word) as told:
        for letter in settle(found):
            done.append(letter)
            if told:
                told(len(done), len(found))
    if session.output is not Format.table:
        show_all(session, done, VIEW, "")
    session.say(f"{plural(len(done), 'letter')} {word}.")


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")


def _body(session: Session, letter: Letter) -> str:
    """The event inside, when it is one; else the bytes as they are."""
    from headgate.common.control.letters import decoded

    from ..output import dump_json

    event = decoded(letter, session.connection)
    if event is not None:
        return dump_json(event)
    value = letter.record.value or b""
    shown = short(repr(value[:2000])[2:-1], 1500)
    return f"{len(value):,} bytes: {shown}"


def _plain(letter: Letter) -> dict[str, Any]:
    reason, mark = letter.reason, letter.mark
    return {
        "id": letter.id,
        "coordinates": letter.record.coordinates,
        "state": letter.state,
        "failed_at": letter.failed_at,
        "stage": reason.stage,
        "error": reason.code,
        "message": reason.message,
        "next": reason.next,
        "attempt": reason.attempt,
        "trigger": reason.trigger or None,
        "event_id": reason.event_id or None,
        "fingerprint": reason.fingerprint or None,
        "run_id": reason.run_id or None,
        "origin": {"topic": reason.topic, "partition": reason.partition, "offset": reason.offset},
        "key": _text(letter.record.key),
        "mark": mark and {"state": mark.state, "at": mark.at, "by": mark.by, "note": mark.note},
    }


def _full_view(session: Session) -> View[Letter]:
    def everything(letter: Letter) -> dict[str, Any]:
        import base64

        headers = [{"name": name, "value": _text(value)} for name, value in letter.record.headers]
        value = base64.b64encode(letter.record.value or b"").decode()
        from headgate.common.control.letters import decoded

        return {
            **_plain(letter),
            "headers": headers,
            "value_base64": value,
            "event": decoded(letter, session.connection),
        }

    return View(columns=[], plain=everything, name=lambda letter: letter.id)


VIEW: View[Letter] = View(
    columns=[
        Column("ID", lambda letter: letter.id),
        Column("AGE", lambda letter: age(letter.failed_at), right=True),
        Column("STATE", lambda letter: letter.state, style=lambda letter: STATES.get(letter.state, "")),
        Column("STAGE", lambda letter: letter.reason.stage),
        Column("ERROR", lambda letter: letter.reason.code),
        Column("TRIGGER", lambda letter: short(letter.reason.trigger or "-", 24), give=True),
        Column("TRY", lambda letter: str(letter.reason.attempt), right=True),
        Column("MESSAGE", lambda letter: short(letter.reason.message, 60), give=True),
    ],
    plain=_plain,
    name=lambda letter: letter.id,
)

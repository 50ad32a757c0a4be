"""headgate why: one event's story on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..everywhere import command
from ..output import View, show_one
from ..session import Format, Session
from .common import age, clock, plural, progress, short

if TYPE_CHECKING:
    from headgate.common.control.events import Event, Found
    from headgate.common.control.letters import Letter
    from headgate.common.control.story import Story

WIDTH = 100
NARROWEST = 40
LINES = 24
INDENT = 10
STYLES = {
    "started": "green",
    "exists": "green",
    "filtered": "yellow",
    "duplicate": "yellow",
    "off": "yellow",
    "error": "red",
    "dead letter": "red",
    "dead_lettered": "red",
    "waits": "cyan",
}
Line = tuple[str, str, str]
"""Title, text, style."""


def register(app: typer.Typer) -> None:
    command(app, "why", rich_help_panel="What happened")(why)


def why(
    session: Session,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT_ID", help="An event id, a fingerprint, a run id, or events.raw/PARTITION/OFFSET."
        ),
    ],
) -> None:
    """Why an event did or did not start a run: decision of each trigger, run, the engine's answer.

    [bold]headgate why 019a9610-7a56-7c3e-9f3e-2b7d0b6a1f00[/bold]
    [bold]headgate why github/hooks:4d1f7e60[/bold]            by fingerprint: every sighting of it
    """
    from headgate.common.control.story import Teller

    with progress(session, f"looking for {event}") as told:
        story = Teller(session.connection, told).tell(event)
    if session.output is not Format.table:
        show_one(session, story, VIEW)
        return
    width = min(WIDTH, max(session.out.width, NARROWEST)) if session.out.is_terminal else WIDTH
    for title, text, style in fitted(list(lines_of(story)), width):
        head = f"{title:<{INDENT}}"
        for number, part in enumerate(_wrapped(text, width)):
            session.out.print(head if number == 0 else " " * INDENT, style="bold", end="", markup=False)
            session.out.print(part, style=style or None, markup=False)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - INDENT, break_long_words=True, break_on_hyphens=False) or [""]


def height(line: Line, width: int = WIDTH) -> int:
    return len(_wrapped(line[1], width))


def fitted(lines: list[Line], width: int = WIDTH) -> list[Line]:
    """At most one screen: what does not fit is counted, not shown."""
    kept: list[Line] = []
    room = LINES - height(_and_more(len(lines)), width)
    for number, line in enumerate(lines):
        if height(line, width) > room:
            return [*kept, _and_more(len(lines) - number)]
        room -= height(line, width)
        kept.append(line)
    return kept


def _and_more(left: int) -> Line:
    return "", f"... {left} more: -o yaml shows everything", "dim"


def lines_of(story: Story) -> Iterator[Line]:
    """The story in the order in which it happened."""
    if story.event is not None:
        yield from _event_lines(story.event)
    elif story.decision is not None:
        yield "event", f"{story.decision['event_id']} (the record itself is no longer kept)", ""
    else:
        yield "event", story.asked, ""
    if story.decision is not None:
        yield from _decision_lines(story, story.decision)
    waiting_letters = [letter for letter in story.letters if letter.mark is None]
    settled = sorted((letter for letter in story.letters if letter.mark), key=lambda one: one.failed_at)
    # What failed again after each of many replays is told once: by the letter that waits, or by the last.
    told = waiting_letters or settled[-1:]
    for letter in told:
        yield from _letter_lines(letter)
    if len(told) < len(story.letters):
        before = plural(len(story.letters) - len(told), "more letter")
        yield "", f"{before} of it, replayed or discarded: headgate dlq list --all", "dim"
    for waiting in story.waiting:
        yield "waits", waiting.what, "cyan"
        yield "", f"next: {waiting.next}", ""
    if story.others:
        yield "also", f"{plural(len(story.others), 'more sighting')} of it, newest last:", ""
        for other in story.others[-5:]:
            yield "", f"{clock(other.received_at)}  {other.id}  from {other.source}", "dim"


def _event_lines(event: Event) -> Iterator[Line]:
    yield "event", event.id, "bold"
    what = f"{event.type or 'untyped'}" + (f" {event.subject}" if event.subject else "")
    by = f"source {event.source} ({event.provider})" if event.source else event.provider
    yield "", short(f"{what}, {by}", 180), ""
    if event.fingerprint:
        yield "", f"fingerprint {short(event.fingerprint, 150)}", ""
    yield (
        "",
        f"received {clock(event.received_at)} ({age(event.received_at)} ago), {event.record.coordinates}",
        "",
    )


def _decision_lines(story: Story, decision: Found) -> Iterator[Line]:
    yield "decided", f"{clock(decision.time('decided_at'))}" + _again(story), ""
    if decision["reason"]:
        yield "", short(decision["reason"], 350), ""
    elif not decision["verdicts"]:
        yield "", f"no trigger listens to source {decision['source']}", "yellow"
    for verdict in story.verdicts:
        outcome = str(verdict["outcome"])
        revision = verdict["trigger_revision"]
        yield "trigger", f"{verdict['trigger']} (revision {revision}): {outcome}", STYLES.get(outcome, "")
        if verdict["reason"]:
            yield "", short(verdict["reason"], 350), ""
        run = story.runs.get(verdict["run_id"] or "")
        if run is not None:
            yield from _run_lines(run, story)


def _again(story: Story) -> str:
    times = len(story.decisions)
    return f" (decided {times} times, this is the newest)" if times > 1 else ""


def _run_lines(run: Found, story: Story) -> Iterator[Line]:
    state = str(run["state"])
    cause = (
        ""
        if story.event is None or run["event_id"] == story.event.id
        else f", caused by event {run['event_id']}"
    )
    tries = f" after {run['attempts']} tries" if run["attempts"] > 1 else ""
    yield "run", f"{run['run_id']}: {state}{tries}{cause}", STYLES.get(state, "")
    took = (run["recorded_at"] - run["received_at"]) / 1000
    yield (
        "",
        f"engine {run['engine']} at {clock(run.time('recorded_at'))}, {_took(took)} after the event arrived",
        "",
    )
    if any(letter.reason.run_id == run["run_id"] for letter in story.letters):
        return  # the letter says why
    said = run["error"] or " ".join(filter(None, (run["handle"], run["answer"])))
    if said:
        yield "", f"answer: {short(said, 260)}", ""


def _took(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 120_000 else f"{milliseconds / 60_000:.0f} min"


def _letter_lines(letter: Letter) -> Iterator[Line]:
    reason, mark = letter.reason, letter.mark
    for_trigger = f" for trigger {reason.trigger}" if reason.trigger else ""
    yield (
        "dead",
        f"letter {letter.id}, {letter.state}: {reason.stage} gave up at {clock(letter.failed_at)}{for_trigger}",
        "red" if mark is None else "dim",
    )
    yield "", f"{reason.code}: {short(reason.message, 300)}", ""
    if mark is not None:
        yield "", f"{mark.state} {clock(mark.at)} by {mark.by} {mark.note}".rstrip(), ""
    else:
        yield "", f"next: {short(reason.next, 150)}  (headgate dlq show {letter.id})", ""


def _plain(story: Story) -> dict[str, Any]:
    return {
        "asked": story.asked,
        "event": story.event.plain() if story.event else None,
        "decisions": [decision.plain() for decision in story.decisions],
        "runs": [run.plain() for run in story.runs.values()],
        "dead_letters": [
            {
                "id": letter.id,
                "state": letter.state,
                "stage": letter.reason.stage,
                "error": letter.reason.code,
                "message": letter.reason.message,
                "trigger": letter.reason.trigger or None,
            }
            for letter in story.letters
        ],
        "waiting": [{"stage": w.stage, "what": w.what, "next": w.next} for w in story.waiting],
        "others": [
            {"id": other.id, "received_at": other.received_at, "source": other.source}
            for other in story.others
        ],
    }


VIEW: View[Story] = View(
    columns=[], plain=_plain, name=lambda story: story.event.id if story.event else story.asked
)

"""headgate events: what arrives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..everywhere import command
from ..output import Column, View, stream
from ..session import Session
from .common import clock, moment_ms, progress, short

if TYPE_CHECKING:
    from headgate.common.control.events import Event

PANEL = "What happened"


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Events as they arrived.", no_args_is_help=True)
    command(group, "tail")(tail)
    app.add_typer(group, name="events", rich_help_panel=PANEL)


def tail(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    since: Annotated[str | None, typer.Option(help="From here on: 10m (ago), or a time.")] = None,
    source: Annotated[str | None, typer.Option(help="Only events of this source.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, without --since.")] = 20,
) -> None:
    """The newest events, oldest first.

    [bold]headgate events tail -f[/bold]
    [bold]headgate events tail --since 1h --source github-issues -o jsonl | jq .data[/bold]
    """
    since_ms = moment_ms(since, "--since")
    shown = stream(session, _events(session, since_ms, source, limit, follow), VIEW, _line)
    if not shown:
        session.say("No events." + ("" if since else " `headgate doctor` says whether everything is up."))


def _events(
    session: Session, since_ms: int | None, source: str | None, limit: int, follow: bool
) -> Iterator[Event]:
    from headgate.common.control.events import event_of
    from headgate.common.control.scan import Scan, record_of

    connection = session.connection
    raw = connection.topics.raw
    with progress(session, "reading events") as told:
        scan = Scan(connection, told)
        ends = {span.partition: span.end for span in scan.whole(raw)}
        found: list[Event] = []

        def look(spans: Any) -> list[Event]:
            events = (event_of(record, connection) for record in scan.records(spans))
            return [event for event in events if source in (None, event.source)]

        if since_ms is not None:
            found = look(scan.between(raw, since_ms))
        else:
            for window in scan.backwards(raw, None, max(limit, 200)):
                found += look(window)
                if len(found) >= limit:
                    break
    found.sort(key=lambda event: event.record.timestamp_ms)
    yield from found if since_ms is not None else found[-limit:]
    if follow:
        for message in scan.following(raw, ends):
            event = event_of(record_of(message), connection)
            if source in (None, event.source):
                yield event


def _line(event: Event) -> str:
    what = f"{event.type or '?'}" + (f" {event.subject}" if event.subject else "")
    when = clock(event.received_at)[11:]
    return f"{when}  {event.id}  {short(event.source or '?', 24):<24}  {short(what, 60)}"


VIEW: View[Event] = View(
    columns=[Column("ID", lambda event: event.id)],
    plain=lambda event: event.plain(),
    name=lambda event: event.id,
)

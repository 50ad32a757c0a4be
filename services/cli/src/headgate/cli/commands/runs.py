"""headgate runs: what was started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.common.control.errors import NotFound

from ..everywhere import command
from ..output import Column, View, show_all, show_one
from ..session import Format, Session
from .common import age, clock, moment_ms, progress, short

if TYPE_CHECKING:
    from headgate.common.control.events import Found

STATE = {"started": "green", "exists": "green", "dead_lettered": "red"}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Runs: what was started, and what the engine said.", no_args_is_help=True)
    command(group, "list")(list_runs)
    command(group, "show")(show)
    app.add_typer(group, name="runs", rich_help_panel="What happened")


def list_runs(
    session: Session,
    trigger: Annotated[str | None, typer.Option(help="Only runs of this trigger.")] = None,
    state: Annotated[str | None, typer.Option(help="Only started, exists or dead_lettered.")] = None,
    since: Annotated[str | None, typer.Option(help="Recorded since: 1h (ago), or a time.")] = None,
    until: Annotated[str | None, typer.Option(help="Recorded before.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 50,
) -> None:
    """The newest runs, newest first, each in its newest state.

    [bold]headgate runs list --trigger page-triage --since 1h[/bold]
    [bold]headgate runs list --state dead_lettered -o json[/bold]
    """
    from headgate.common.control.runs import newest_runs

    if state is not None and state not in STATE:
        raise typer.BadParameter(f"{state!r} is no state; there are {', '.join(STATE)}", param_hint="--state")
    with progress(session, "reading runs") as told:
        found = newest_runs(
            session.connection,
            trigger=trigger,
            state=state,
            since_ms=moment_ms(since, "--since"),
            until_ms=moment_ms(until, "--until"),
            limit=limit,
            progress=told,
        )
    show_all(session, found, VIEW, "No runs.")


def show(session: Session, run_id: Annotated[str, typer.Argument(help="The run's id.")]) -> None:
    """One run with the engine's answer. `headgate why RUN_ID` tells the whole story.

    [bold]headgate runs show 0b6ad6a5-5dd4-5c3a-a9f7-9a4a1f3d7d2f[/bold]
    """
    from headgate.common.control.runs import run_by_id

    with progress(session, "looking for the run") as told:
        run = run_by_id(session.connection, run_id, told)
    if run is None:
        raise NotFound(
            f"there is no run {run_id} on {session.connection.topics.runs}; runs are kept for 30 days"
        )
    if session.output is not Format.table:
        show_one(session, run, VIEW)
        return
    values = run.plain()
    for name, value in values.items():
        text = clock(value) if name.endswith("_at") else str(value)
        session.out.print(f"{name.replace('_', ' '):<17} {text}", style=STATE.get(text), markup=False)


VIEW: View[Found] = View(
    columns=[
        Column("RUN", lambda run: str(run["run_id"])),
        Column("STATE", lambda run: str(run["state"]), style=lambda run: STATE.get(run["state"], "")),
        Column("TRIGGER", lambda run: short(run["trigger"], 30), give=True),
        Column("ENGINE", lambda run: str(run["engine"])),
        Column("ANSWER", lambda run: short(run["error"] or run["answer"] or run["handle"], 40), give=True),
        Column("TRIES", lambda run: str(run["attempts"]), right=True),
        Column("AGE", lambda run: age(run.time("recorded_at")), right=True),
    ],
    plain=lambda run: run.plain(),
    name=lambda run: str(run["run_id"]),
)

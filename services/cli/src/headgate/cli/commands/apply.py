"""headgate apply"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..everywhere import command
from ..output import Column, View, show_all
from ..session import Format, Session

if TYPE_CHECKING:
    from headgate.common.control.plan import Change

STYLES = {"created": "green", "changed": "yellow", "deleted": "red", "unchanged": "dim"}

Files = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", help="A file, a folder (searched through), or - for stdin. Can be repeated."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")]


def register(app: typer.Typer) -> None:
    command(app, "apply", rich_help_panel="Triggers and sources")(apply)


def apply(session: Session, filename: Files, dry_run: DryRun = False) -> None:
    """Create or change triggers and sources from YAML. All of it is checked before any of it is written.

    [bold]headgate apply -f triggers/[/bold]                      every .yaml in a folder
    [bold]headgate apply -f page.yaml --dry-run[/bold]            only say what would change
    [bold]cat page.yaml | headgate apply -f -[/bold]              from stdin
    [bold]headgate get triggers -o yaml | headgate --prefix test apply -f -[/bold]   copy to another prefix
    """
    from headgate.common.control import apply as control

    wanted = control.read(filename)
    changes = control.apply(session.connection, wanted, dry_run)
    show_changes(session, changes)
    if dry_run:
        session.say("Dry run: nothing was written.")


def show_changes(session: Session, changes: list[Change]) -> None:
    """One line a document, as `trigger/name created (revision 1)`."""
    if session.output is Format.table:
        for change in changes:
            line = f"{change.kind.lower()}/{change.name} {change.action}"
            line += f" (revision {change.revision})" if change.stored and change.action != "unchanged" else ""
            line += f" (inside trigger {change.owner})" if change.owner else ""
            session.out.print(line, style=STYLES[change.action], markup=False)
        return
    show_all(session, changes, CHANGES, "nothing to do")


def _plain(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "name": change.name,
        "action": change.action,
        "revision": change.revision or None,
        "trigger": change.owner,
    }


CHANGES: View[Change] = View(
    columns=[Column("NAME", lambda change: change.name)],
    plain=_plain,
    name=lambda change: f"{change.kind.lower()}/{change.name}",
)

"""headgate doctor, headgate version: is everything as it should be, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ..everywhere import command
from ..exits import FAILURE
from ..output import Column, View, show_all, show_one
from ..session import Format, Session

if TYPE_CHECKING:
    from headgate.common.control.diagnose import Check

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    command(app, "doctor", rich_help_panel="The installation")(doctor)
    command(app, "version", rich_help_panel="The installation")(version)


def doctor(session: Session) -> None:
    """Check broker, registry, topics, clocks, services and dead letters; each line says what to do.

    Exit code 0 when nothing failed (warnings may be there), 1 otherwise.
    """
    from headgate.common.control.diagnose import diagnose

    found = list(_told(session, diagnose(session.settings)))
    if session.output is not Format.table:
        show_all(session, found, VIEW, "")
    if any(check.state == "fail" for check in found):
        raise typer.Exit(FAILURE)


def _told(session: Session, checks: Any) -> Any:
    """Each line as soon as it is known: a doctor that is silent for ten seconds worries."""
    for check in checks:
        if session.output is Format.table:
            session.out.print(f"{check.state:<5}", style=STYLES[check.state], end="", markup=False)
            session.out.print(f"{check.name:<11}{check.what}", markup=False)
            if check.fix:
                session.out.print(f"{'':<16}{check.fix}", style="bold", markup=False)
        yield check


def version(session: Session) -> None:
    """Versions of headgate and of what it stands on."""
    from headgate.common.control.diagnose import versions

    found = versions()
    if session.output is Format.table:
        for name, number in found.items():
            session.out.print(f"{name:<18}{number}", markup=False)
        return
    show_one(
        session,
        found,
        View(columns=[], plain=lambda found: dict(found), name=lambda found: found["headgate"]),
    )


VIEW: View[Check] = View(
    columns=[Column("CHECK", lambda check: check.name)],
    plain=lambda check: {
        "check": check.name,
        "state": check.state,
        "what": check.what,
        "fix": check.fix or None,
    },
    name=lambda check: check.name,
)

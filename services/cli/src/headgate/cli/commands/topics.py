"""headgate topics: the topics Headgate needs, as they should be and as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from ..everywhere import command
from ..exits import FAILURE
from ..output import Column, View, show_all
from ..session import Session
from .common import plural

if TYPE_CHECKING:
    from headgate.common.topicadmin import Finding
    from headgate.common.topics import Topic

STATES = {"ok": "green", "created": "green", "changed": "yellow", "missing": "red", "wrong": "red"}


@dataclass(frozen=True)
class Row:
    """A topic as declared, with how many records it holds."""

    topic: Topic
    there: bool
    records: int


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Topics and schemas: create them, compare them.", no_args_is_help=True)
    command(group, "list")(list_topics)
    command(group, "apply")(apply)
    command(group, "check")(check)
    app.add_typer(group, name="topics", rich_help_panel="The installation")


def list_topics(session: Session) -> None:
    """Every topic of ours, with what it is for and how many records it holds."""
    from headgate.common.control.scan import Scan
    from headgate.common.topicadmin import TopicAdmin

    connection = session.connection
    there = TopicAdmin(session.settings.kafka).partitions()
    scan = Scan(connection)
    rows = [
        Row(
            topic,
            topic.name in there,
            sum(s.size for s in scan.whole(topic.name)) if topic.name in there else 0,
        )
        for topic in connection.topics.all
    ]
    show_all(session, rows, ROWS, "no topics")


def apply(session: Session) -> None:
    """Create missing topics, correct settings, register the schemas. Nothing is ever deleted.

    [bold]headgate topics apply[/bold]
    """
    from headgate.common.topicadmin import TopicAdmin

    connection = session.connection
    found = TopicAdmin(session.settings.kafka).apply(connection.topics)
    show_all(session, found, FINDINGS, "no topics")
    ids = connection.registry.install(connection.topics)
    session.say(f"{plural(len(ids), 'schema')} registered, each BACKWARD_TRANSITIVE.")
    _exit_with_problems(found)


def check(session: Session) -> None:
    """Compare topics with what they must be; exit code 1 when one is missing or wrong."""
    from headgate.common.topicadmin import TopicAdmin

    connection = session.connection
    found = TopicAdmin(session.settings.kafka).check(connection.topics)
    show_all(session, found, FINDINGS, "no topics")
    _exit_with_problems(found)


def _exit_with_problems(found: list[Finding]) -> None:
    if any(finding.is_problem for finding in found):
        raise typer.Exit(FAILURE)


def _row(row: Row) -> dict[str, Any]:
    topic = row.topic
    return {
        "name": topic.name,
        "exists": row.there,
        "partitions": topic.partitions,
        "records": row.records,
        "schema": topic.schema,
        "config": topic.config,
        "doc": topic.doc,
    }


ROWS: View[Row] = View(
    columns=[
        Column("NAME", lambda row: row.topic.name),
        Column("PARTS", lambda row: str(row.topic.partitions), right=True),
        Column("RECORDS", lambda row: f"{row.records:,}" if row.there else "missing", right=True),
        Column("CLEANUP", lambda row: row.topic.config.get("cleanup.policy", "")),
        Column("SCHEMA", lambda row: row.topic.schema or "-"),
        Column("DOC", lambda row: row.topic.doc, give=True),
    ],
    plain=_row,
    name=lambda row: row.topic.name,
)

FINDINGS: View[Finding] = View(
    columns=[
        Column("TOPIC", lambda finding: finding.topic),
        Column("STATE", lambda finding: finding.state, style=lambda finding: STATES.get(finding.state, "")),
        Column("DETAIL", lambda finding: finding.detail, give=True),
    ],
    plain=lambda finding: {"topic": finding.topic, "state": finding.state, "detail": finding.detail},
    name=lambda finding: finding.topic,
)

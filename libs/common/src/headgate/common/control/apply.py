"""Applying and deleting: read what is there, decide, write. Nothing is written unless all of it is valid."""

from __future__ import annotations

import time
from collections.abc import Iterable

from headgate.common.errors import Invalid

from .connection import Connection
from .documents import load
from .plan import Author, Change, Plan, plan, plan_deletion
from .problems import Problem
from .store import Kind, State, read_state, write
from .validate import Wanted, validate


class InvalidDocuments(Invalid):
    """What was handed in cannot be accepted. One problem a line, each with file, line, field and fix."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
        super().__init__("\n".join(map(str, problems)) + f"\n{count}; nothing was written.")


def read(paths: Iterable[str]) -> list[Wanted]:
    """Files, folders and stdin as valid documents. Needs no Kafka."""
    loaded = load(paths)
    wanted, problems = validate(loaded.documents)
    problems = loaded.problems + problems
    if problems:
        raise InvalidDocuments(problems)
    if not wanted:
        raise Invalid(
            "there is no document in what was given: write one with `kind: Trigger` or `kind: Source`"
        )
    return wanted


def apply(connection: Connection, wanted: list[Wanted], dry_run: bool = False) -> list[Change]:
    """Brings the stored triggers and sources to what is wanted. The same again changes nothing."""
    decided = plan(wanted, read_state(connection), _author(connection))
    if decided.problems:
        raise InvalidDocuments(decided.problems)
    if not dry_run:
        carry_out(connection, decided)
    return decided.changes


def delete(
    connection: Connection, kind: Kind, names: list[str], state: State, dry_run: bool = False
) -> list[Change]:
    """Deletes documents that are there; a trigger's own sources go with it."""
    decided = plan_deletion(kind, names, state)
    if not dry_run:
        carry_out(connection, decided)
    return decided.changes


def carry_out(connection: Connection, decided: Plan) -> None:
    """Writes in the order of the plan, each kind acknowledged before the next begins."""
    for changes in _runs([change for change in decided.changes if change.action != "unchanged"]):
        write(connection, changes[0].kind, [(change.name, change.stored) for change in changes])


def _runs(changes: list[Change]) -> list[list[Change]]:
    """Neighbours of one kind together."""
    runs: list[list[Change]] = []
    for change in changes:
        if runs and runs[-1][0].kind == change.kind:
            runs[-1].append(change)
        else:
            runs.append([change])
    return runs


def _author(connection: Connection) -> Author:
    return Author(connection.topics.prefix, connection.author, time.time_ns() // 1000)

"""Prints things in the format that was asked for. Only data goes to stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from .session import Format, Session, visible

T = TypeVar("T")
Plain = dict[str, Any]


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column of a table. `give` shortens itself first when the terminal is narrow."""

    title: str
    value: Callable[[T], str]
    style: Callable[[T], str] | None = None
    give: bool = False
    right: bool = False


@dataclass(frozen=True)
class View(Generic[T]):
    """How one kind of thing is shown: as a row, as plain data, as a name."""

    columns: Sequence[Column[T]]
    plain: Callable[[T], Plain]
    name: Callable[[T], str]


def show_all(session: Session, things: Sequence[T], view: View[T], empty: str) -> None:
    """Prints a list; `empty` goes to stderr when there is nothing."""
    match session.output:
        case Format.table:
            if things:
                _table(session, things, view)
        case Format.json:
            _write(session, dump_json([view.plain(thing) for thing in things]))
        case Format.jsonl:
            for thing in things:
                _write(session, dump_json(view.plain(thing), indent=None))
        case Format.yaml:
            _write(session, dump_yaml([view.plain(thing) for thing in things]).rstrip("\n"))
        case Format.name:
            for thing in things:
                _write(session, view.name(thing))
    if not things:
        session.say(empty)


def show_one(session: Session, thing: T, view: View[T]) -> None:
    """Prints one thing as data; the table form of a single thing is the caller's."""
    match session.output:
        case Format.json:
            _write(session, dump_json(view.plain(thing)))
        case Format.jsonl:
            _write(session, dump_json(view.plain(thing), indent=None))
        case Format.yaml:
            _write(session, dump_yaml([view.plain(thing)]).rstrip("\n"))
        case Format.name:
            _write(session, view.name(thing))
        case Format.table:
            _table(session, [thing], view)


def stream(session: Session, things: Iterable[T], view: View[T], line: Callable[[T], str]) -> int:
    """Prints things as they come: `line` for people, one JSON object a line for json and jsonl."""
    count = 0
    for thing in things:
        count += 1
        match session.output:
            case Format.table:
                _write(session, line(thing))
            case Format.json | Format.jsonl:
                _write(session, dump_json(view.plain(thing), indent=None))
            case Format.yaml:
                _write(session, "---\n" + dump_yaml([view.plain(thing)]).rstrip("\n"))
            case Format.name:
                _write(session, view.name(thing))
        session.out.file.flush()
    return count


def _write(session: Session, text: str) -> None:
    session.out.print(text, markup=False, highlight=False, soft_wrap=True)


NARROWEST = 10
GAP = "  "


def _table(session: Session, things: Sequence[T], view: View[T]) -> None:
    """Columns side by side. A terminal's width cuts the columns that give; a pipe cuts nothing, so that
    grep and awk see whole values."""
    from rich.text import Text

    columns = view.columns
    rows = [[visible(column.value(thing)) for column in columns] for thing in things]
    widths = [max(len(column.title), *(len(row[i]) for row in rows)) for i, column in enumerate(columns)]
    if session.out.is_terminal:
        widths = _fitted(widths, [column.give for column in columns], session.out.width)
    styles = [[column.style(thing) if column.style else "" for column in columns] for thing in things]
    titles = [column.title for column in columns]
    for cells, looks in zip([titles, *rows], [["bold"] * len(columns), *styles], strict=True):
        line = Text(end="")
        for index, (cell, column, width, look) in enumerate(zip(cells, columns, widths, looks, strict=True)):
            cut = cell if len(cell) <= width else cell[: width - 1] + "…"
            line.append(
                (GAP if index else "") + (cut.rjust(width) if column.right else cut.ljust(width)), look
            )
        line.rstrip()
        session.out.print(line, soft_wrap=True, crop=False)


def _fitted(widths: list[int], gives: list[bool], room: int) -> list[int]:
    """Widths that fit: the widest column that gives gives first."""
    widths = list(widths)
    while sum(widths) + len(GAP) * (len(widths) - 1) > room:
        giving = [index for index, width in enumerate(widths) if gives[index] and width > NARROWEST]
        if not giving:
            break
        widths[max(giving, key=widths.__getitem__)] -= 1
    return widths


def dump_json(value: object, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_jsonable)


def dump_yaml(values: Sequence[object]) -> str:
    import yaml

    plain = [json.loads(dump_json(value)) for value in values]
    return yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=100)


def _jsonable(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)

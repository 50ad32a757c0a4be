"""What an expression asks of `event`: a field that no event has is a mistake, and every event would fail for it."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.common.conditions.quick import RECORD_FIELDS
from headgate.common.conditions.tree import Call, Items, Literal, Loop, Name, Node, Select

EVENT_FIELDS = frozenset({*RECORD_FIELDS, "time", "data"})


def unknown(node: Node) -> str | None:
    """The first field it asks of `event` that no event has."""
    return next((field for field in _asked(node) if field not in EVENT_FIELDS), None)


def no_such_field(field: str) -> str:
    """What to say of it."""
    there = ", ".join(sorted(EVENT_FIELDS - {"data"}))
    return f"an event has no field {field}; what was sent is event.data, beside it are: {there}"


def _asked(node: Node) -> Iterator[str]:
    match node:
        case Select(Name("event"), field) | Call("_[_]", (Name("event"), Literal(str(field)))):
            yield field
    for part in _parts(node):
        yield from _asked(part)


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand):
            return (operand,)
        case Call(_, parts) | Items(parts):
            return parts
        case Loop(names, parts) if "event" not in names:
            return parts
    return ()

"""The syntax tree of an expression that the library has compiled and checked.

The library shows it only as bytes: `cel.expr.CheckedExpr` in an `Any`. Read here is the part of that format
which `quick` can use; everything else is Unsupported, never guessed at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

_DOUBLE = struct.Struct("<d")
_STEPS = frozenset({2, 4, 5, 6, 7})
"""Of a loop's fields, those that are expressions; the others are its variables' names."""
_CHECKED = b"type.googleapis.com/cel.expr.CheckedExpr"


class Unsupported(Exception):
    """The expression has something in it that is left to the library."""


class Literal(NamedTuple):
    value: bool | int | float | str | None


class Name(NamedTuple):
    name: str


class Select(NamedTuple):
    """`operand.field`, or `has(operand.field)` when only asked for."""

    operand: Node
    field: str
    asked: bool


class Call(NamedTuple):
    """An operator or a function; a method's target is its first argument."""

    function: str
    arguments: tuple[Node, ...]


class Items(NamedTuple):
    """A list as written."""

    items: tuple[Node, ...]


class Loop(NamedTuple):
    """`all`, `exists`, `map` and the like, as the steps they were unrolled into, and the names these bind."""

    names: frozenset[str]
    steps: tuple[Node, ...]


Node: TypeAlias = Literal | Name | Select | Call | Items | Loop


def read(serialized: bytes) -> Node:
    """The tree in what the library's `serialize()` gives."""
    try:
        envelope = dict(_fields(serialized))
        if envelope[1] != _CHECKED:
            raise Unsupported
        return _node(_bytes(dict(_fields(_bytes(envelope[2])))[4]))
    except (KeyError, IndexError, UnicodeDecodeError, struct.error) as problem:
        raise Unsupported from problem


def _node(data: bytes) -> Node:
    for number, value in _fields(data):
        if number == 3:
            return Literal(_constant(_bytes(value)))
        if number == 4:
            return Name(_text(dict(_fields(_bytes(value)))[1]))
        if number == 5:
            select = dict(_fields(_bytes(value)))
            return Select(_node(_bytes(select[1])), _text(select[2]), bool(select.get(3)))
        if number == 6:
            return _call(_bytes(value))
        if number == 7:
            return _items(_bytes(value))
        if number == 9:
            return _loop(_bytes(value))
        if number != 2:  # the node's id
            break
    raise Unsupported


def _call(data: bytes) -> Call:
    function = ""
    arguments: list[Node] = []
    for number, value in _fields(data):
        if number == 1:
            arguments.insert(0, _node(_bytes(value)))
        elif number == 2:
            function = _text(value)
        elif number == 3:
            arguments.append(_node(_bytes(value)))
        else:
            raise Unsupported
    return Call(function, tuple(arguments))


def _items(data: bytes) -> Items:
    items = []
    for number, value in _fields(data):
        if number != 1:
            raise Unsupported
        items.append(_node(_bytes(value)))
    return Items(tuple(items))


def _loop(data: bytes) -> Loop:
    names, steps = [], []
    for number, value in _fields(data):
        if number in _STEPS:
            steps.append(_node(_bytes(value)))
        else:
            names.append(_text(value))
    return Loop(frozenset(names), tuple(steps))


def _constant(data: bytes) -> bool | int | float | str | None:
    ((number, value),) = _fields(data)
    if number == 1:
        return None
    if number == 2:
        return bool(value)
    if number == 3 and isinstance(value, int):
        return value - 2**64 if value >= 2**63 else value
    if number == 5:
        return float(_DOUBLE.unpack(_bytes(value))[0])
    if number == 6:
        return _text(value)
    raise Unsupported


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers for varints, bytes for everything else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise Unsupported
        if at + size > len(data):
            raise Unsupported
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Unsupported
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()

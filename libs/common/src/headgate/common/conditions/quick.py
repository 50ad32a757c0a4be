"""Most conditions compare a field or two. Those are answered here, in a tenth of the library's time.

A `Step` is an expression as a Python function of the event. Where it gives a value, the library gives the same;
wherever that is not plain to see (a missing field, a wrong type, numbers of two kinds)
it raises Unsure, and the library is asked, whose answers and errors are the only ones there are. What has
anything in it that is not listed here has no step at all. A test holds both to each other on random
expressions and events.

Events are as orjson reads them: dict, list, str, int of 64 bits, float, bool and None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from headgate.common.conditions.tree import Call, Items, Literal, Name, Node, Select, Unsupported
from headgate.common.headers import rfc3339


class Event(Protocol):
    """What a step looks at."""

    @property
    def record(self) -> Mapping[str, Any]: ...

    @property
    def data(self) -> Any: ...


Step: TypeAlias = Callable[[Event], Any]


class Unsure(LookupError):
    """Ask the library. A LookupError, as a field that is not there raises one too."""


RECORD_FIELDS = ("id", "fingerprint", "source", "provider", "type", "subject", "attributes")
"""What conditions see of a record as it stands; besides these there are `time` and `data`."""

_KINDS = frozenset({str, bool, int, float, type(None), list, dict})
_NUMBERS = frozenset({int, float})


def step(node: Node) -> Step:
    """The node as a function. Unsupported: it has none."""
    if isinstance(node, Literal):
        return _always(node.value)
    if isinstance(node, Select):
        return _has(node.operand, node.field) if node.asked else _field(node.operand, node.field)
    if isinstance(node, Call):
        return _call(node.function, node.arguments)
    if isinstance(node, Items):
        return _always([_literal(item) for item in node.items])
    raise Unsupported


def _always(value: Any) -> Step:
    return lambda event: value


def _literal(node: Node) -> Any:
    if not isinstance(node, Literal):
        raise Unsupported
    return node.value


# -- fields ---------------------------------------------------------------------------------------------


def _field(operand: Node, name: str) -> Step:
    if isinstance(operand, Name):
        return _root(operand, name)
    if (
        isinstance(operand, Select)
        and not operand.asked
        and operand.operand == Name("event")
        and operand.field == "data"
    ):
        return _data_field(name)
    inner = step(operand)

    def field(event: Event) -> Any:
        found = inner(event)
        if type(found) is dict:
            return found[name]
        raise Unsure

    return field


def _data_field(name: str) -> Step:
    """`event.data.name`, which is what most conditions ask for."""

    def field(event: Event) -> Any:
        found = event.data
        if type(found) is dict:
            return found[name]
        raise Unsure

    return field


def _root(variable: Name, name: str) -> Step:
    if variable.name != "event":
        raise Unsupported
    if name == "data":
        return lambda event: event.data
    if name == "time":
        return lambda event: rfc3339(event.record["occurred_at"])
    if name not in RECORD_FIELDS or name == "attributes":
        raise Unsupported

    def field(event: Event) -> Any:
        found = event.record[name]
        if found is not None and "\0" in found:
            raise Unsure
        return found

    return field


def _has(operand: Node, name: str) -> Step:
    if isinstance(operand, Name):
        raise Unsupported
    inner = step(operand)

    def has(event: Event) -> Any:
        found = inner(event)
        if type(found) is dict:
            return name in found
        raise Unsure

    return has


def _index(operand: Node, key: Node) -> Step:
    wanted = _literal(key)
    if type(wanted) is str:
        return _field(operand, wanted)
    if type(wanted) is not int or wanted < 0:
        raise Unsupported
    inner = step(operand)

    def index(event: Event) -> Any:
        found = inner(event)
        if type(found) is list:
            return found[wanted]
        raise Unsure

    return index


# -- operators and functions ----------------------------------------------------------------------------


def _call(function: str, arguments: tuple[Node, ...]) -> Step:
    if function == "_[_]":
        return _index(*arguments)
    steps = tuple(step(argument) for argument in arguments)
    if function == "_&&_":
        return _and(*steps)
    if function == "_||_":
        return _or(*steps)
    if function == "!_":
        return _not(*steps)
    if function == "size" and len(steps) == 1:
        return _size(*steps)
    if function in _OF_TWO and len(steps) == 2:
        return _of_two(_OF_TWO[function], *steps)
    raise Unsupported


def _and(left: Step, right: Step) -> Step:
    def both(event: Event) -> bool:
        found = left(event)
        if found is True:
            found = right(event)
            if found is True:
                return True
        if found is False:
            return False
        raise Unsure

    return both


def _or(left: Step, right: Step) -> Step:
    def either(event: Event) -> bool:
        found = left(event)
        if found is False:
            found = right(event)
            if found is False:
                return False
        if found is True:
            return True
        raise Unsure

    return either


def _not(inner: Step) -> Step:
    def opposite(event: Event) -> bool:
        found = inner(event)
        if found is True:
            return False
        if found is False:
            return True
        raise Unsure

    return opposite


def _size(inner: Step) -> Step:
    def size(event: Event) -> int:
        found = inner(event)
        if type(found) in (str, list, dict):
            return len(found)
        raise Unsure

    return size


def _of_two(compare: Callable[[Any, Any], bool], left: Step, right: Step) -> Step:
    return lambda event: compare(left(event), right(event))


def _equal(one: Any, other: Any) -> bool:
    kind, second = type(one), type(other)
    if kind is second:
        if kind is str or kind is bool or kind is int or kind is float or one is None:
            return bool(one == other)
        raise Unsure
    if kind in _KINDS and second in _KINDS and not (kind in _NUMBERS and second in _NUMBERS):
        return False
    raise Unsure


def _different(one: Any, other: Any) -> bool:
    return not _equal(one, other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(one: Any, other: Any) -> bool:
        kind = type(one)
        if kind is type(other) and (kind is str or kind is int or kind is float):
            return compare(one, other)
        raise Unsure

    return ordered


def _within(one: Any, many: Any) -> bool:
    if type(one) is str and type(many) in (list, dict):
        return one in many
    raise Unsure


def _of_texts(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def of_texts(one: Any, other: Any) -> bool:
        if type(one) is str and type(other) is str:
            return test(one, other)
        raise Unsure

    return of_texts


_OF_TWO: dict[str, Callable[[Any, Any], bool]] = {
    "_==_": _equal,
    "_!=_": _different,
    "_<_": _ordered(operator.lt),
    "_<=_": _ordered(operator.le),
    "_>_": _ordered(operator.gt),
    "_>=_": _ordered(operator.ge),
    "@in": _within,
    "startsWith": _of_texts(str.startswith),
    "endsWith": _of_texts(str.endswith),
    "contains": _of_texts(operator.contains),
}

"""CEL through Google's library: linear regular expressions and an iteration budget are its own.

Plain comparisons are answered without it (`quick`); what they give is what it gives.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from cel_expr_python import cel

from headgate.common.conditions import clauses, fields, quick, tree, work
from headgate.common.errors import HeadgateError, Invalid
from headgate.common.headers import rfc3339

MAX_SOURCE_BYTES = 4096
MAX_DEPTH = 64
_SHOWN = 120
_NUL = "\\u0000"
"""As JSON has to write it."""

_ENV = cel.NewEnv(variables={"event": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
if sys.version_info < (3, 12):
    # The library hands out nulls without counting them, and Python aborts when more were given back than it had.
    # From 3.12 on None is not counted; before, it gets a count that is never used up.
    ctypes.c_ssize_t.from_address(id(None)).value += 1 << 40

_BOOLEAN = frozenset({"BOOL", "bool", "DYN", "dyn"})
_PLAIN = frozenset({str, bool, int, float, type(None)})
"""Values that look the same whoever shows them."""


class Activation:
    """One event for all the conditions that ask about it; prepared for the library when that is first asked."""

    __slots__ = ("_prepared", "data", "plain", "record")

    def __init__(self, record: Mapping[str, Any], data: Any) -> None:
        self.record = record
        self.data = data
        self.plain = _NUL not in record.get("data", "")
        """The library cuts strings off at a NUL: only it can say what then comes of them."""
        self._prepared: Any = None

    def prepared(self) -> Any:
        """The event as the library's variables."""
        if self._prepared is None:
            self._prepared = _ENV.Activation({"event": event_view(self.record, self.data)})
        return self._prepared


class ConditionError(HeadgateError):
    """A condition could not be evaluated for this event: a missing field, a wrong type, too much work."""


class Verdict(NamedTuple):
    """What a condition says, and why it says no."""

    passed: bool
    reason: str = ""


_PASSED = Verdict(True, "the condition holds")


def event_view(event: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """What conditions and templates see as `event`: the record's fields, with `data` parsed."""
    view = {name: event[name] for name in quick.RECORD_FIELDS}
    view["time"] = rfc3339(event["occurred_at"])
    view["data"] = data
    return view


def activation(event: Mapping[str, Any], data: Any) -> Activation:
    """An event, for all the triggers that ask about it."""
    return Activation(event, data)


class _Expression:
    """An expression as the library compiled it, and as a quick step where it has one."""

    def __init__(self, source: str, quickly: bool) -> None:
        self._compiled = _ENV.compile(source)
        self.tree = _tree(self._compiled)
        self._step = _step(self.tree) if quickly else None
        self.kind: str = self._compiled.return_type().name()

    def quick(self, activation: Activation) -> Any:
        """Its value as a Python object. Unsure, or some other LookupError: ask `whole`."""
        if self._step is None or not activation.plain:
            raise quick.Unsure
        return self._step(activation)

    def whole(self, activation: Activation) -> Any:
        """The library's own result."""
        return self._compiled.eval(activation.prepared())

    def says_no(self, activation: Activation) -> bool:
        try:
            return self.quick(activation) is False
        except LookupError:
            return self.whole(activation).value() is False

    def shown(self, activation: Activation) -> str:
        """Its value, for a person to read."""
        try:
            value = self.quick(activation)
            if type(value) in _PLAIN or (type(value) is list and all(type(one) in _PLAIN for one in value)):
                return _show(value)
        except LookupError:
            pass
        return _show(self.whole(activation).plain_value())


class Condition:
    """A compiled expression. `evaluate` is called for every event of the trigger's sources."""

    def __init__(self, source: str, quickly: bool = True) -> None:
        self.source = source
        self._quickly = quickly
        try:
            self._expression = _Expression(source, quickly)
        except RuntimeError as problem:
            raise Invalid(f"it is not valid CEL: {_plain(problem)}") from problem
        self.kind = self._expression.kind
        self.tree = self._expression.tree
        self._looks_around = work.looks_around(source, self.tree)
        self._parts: list[tuple[str, _Expression | None, _Expression | None]] | None = None

    def evaluate(self, activation: Activation) -> Verdict:
        """Passed, or the clause that failed with the actual value. Raises ConditionError."""
        try:
            value = self._expression.quick(activation)
        except LookupError:
            value = None
        if value is True:
            return _PASSED
        if value is False:
            return Verdict(False, self._why_not(activation))
        result = self._whole(activation)
        value = result.value()
        if value is True:
            return _PASSED
        if value is False:
            return Verdict(False, self._why_not(activation))
        raise ConditionError(f"`{_short(self.source)}` gave {_show(value)}, not true or false")

    def value(self, activation: Activation) -> Any:
        """What the expression gives, for one that is no condition (`order_by`). Raises ConditionError."""
        return self._whole(activation).plain_value()

    def _whole(self, activation: Activation) -> Any:
        too_much = work.too_much(activation.record.get("data", "")) if self._looks_around else None
        if too_much is not None:
            raise ConditionError(f"`{_short(self.source)}` stopped: {too_much}")
        try:
            result = self._expression.whole(activation)
        except RuntimeError as problem:
            raise ConditionError(f"`{_short(self.source)}` stopped: {_plain(problem)}") from problem
        if result.type() == cel.Type.ERROR:
            raise ConditionError(f"`{_short(self.source)}` cannot be evaluated: {_plain(result.value())}")
        return result

    def _why_not(self, activation: Activation) -> str:
        if self._parts is None:
            self._parts = [self._part(clause) for clause in clauses.conjuncts(self.source)]
        for clause, whole, left in self._parts:
            if whole is None or not whole.says_no(activation):
                continue
            if left is None:
                return f"`{clause}` is false"
            return f"`{clause}` is false: it is {left.shown(activation)}"
        return f"`{_short(self.source)}` is false"

    def _part(self, clause: str) -> tuple[str, _Expression | None, _Expression | None]:
        left = clauses.compared(clause)
        try:
            return (
                _short(clause),
                _Expression(clause, self._quickly),
                _Expression(left, self._quickly) if left else None,
            )
        except RuntimeError:
            return _short(clause), None, None


def compile(source: str) -> Condition:
    """Compile a condition, or say in the user's words why it cannot be one."""
    condition = expression(source)
    if condition.kind not in _BOOLEAN:
        raise Invalid(f"the condition gives {condition.kind}, not true or false: compare it with something")
    return condition


@lru_cache(maxsize=4096)
def expression(source: str) -> Condition:
    """As `compile`, for what may give any value (`order_by`)."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise Invalid(f"it is longer than {MAX_SOURCE_BYTES} bytes; split it over several triggers")
    if clauses.depth(source) > MAX_DEPTH:
        raise Invalid(f"it nests deeper than {MAX_DEPTH} brackets")
    compiled = Condition(source)
    unknown = fields.unknown(compiled.tree) if compiled.tree else None
    if unknown is not None:
        raise Invalid(fields.no_such_field(unknown))
    return compiled


def _tree(compiled: Any) -> tree.Node | None:
    try:
        return tree.read(compiled.serialize())
    except tree.Unsupported:
        return None


def _step(node: tree.Node | None) -> quick.Step | None:
    try:
        return quick.step(node) if node else None
    except tree.Unsupported:
        return None


def _plain(problem: object) -> str:
    """The library's message without its frame: 'Syntax error: mismatched input ... (at 1:16)'."""
    text = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    text = text.removeprefix("INVALID_ARGUMENT: ").removeprefix("ERROR: ")
    return _short(text.removeprefix("<input>:"), 300)


def _show(value: object) -> str:
    return _short(f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value))


def _short(text: str, limit: int = _SHOWN) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

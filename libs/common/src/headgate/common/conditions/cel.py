"""CEL through Google's library: linear regular expressions and an iteration budget are its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from headgate.common.conditions import clauses
from headgate.common.errors import HeadgateError, Invalid
from headgate.common.headers import rfc3339

MAX_SOURCE_BYTES = 4096
MAX_DEPTH = 64
_SHOWN = 120

_ENV = cel.NewEnv(variables={"event": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
_BOOLEAN = frozenset({"BOOL", "bool", "DYN", "dyn"})

Activation = Any
"""The library's prepared variables of one event."""


class ConditionError(HeadgateError):
    """A condition could not be evaluated for this event: a missing field, a wrong type, too much work."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition says, and why it says no."""

    passed: bool
    reason: str = ""


_PASSED = Verdict(True, "the condition holds")


def event_view(event: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """What conditions and templates see as `event`: the record's fields, with `data` parsed."""
    return {
        "id": event["id"],
        "fingerprint": event["fingerprint"],
        "source": event["source"],
        "provider": event["provider"],
        "type": event["type"],
        "subject": event["subject"],
        "time": rfc3339(event["occurred_at"]),
        "attributes": event["attributes"],
        "data": data,
    }


def activation(event: Mapping[str, Any], data: Any) -> Activation:
    """Prepare an event once for all the triggers that ask about it."""
    return _ENV.Activation({"event": event_view(event, data)})


class Condition:
    """A compiled condition. `evaluate` is called for every event of the trigger's sources."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._whole = _compiled(source)
        self._parts: list[tuple[str, Any, Any]] | None = None

    def evaluate(self, activation: Activation) -> Verdict:
        """Passed, or the clause that failed with the actual value. Raises ConditionError."""
        try:
            result = self._whole.eval(activation)
        except RuntimeError as problem:
            raise ConditionError(f"`{_short(self.source)}` stopped: {_plain(problem)}") from problem
        value = result.value()
        if value is True:
            return _PASSED
        if value is False:
            return Verdict(False, self._why_not(activation))
        if result.type() == cel.Type.ERROR:
            raise ConditionError(f"`{_short(self.source)}` cannot be evaluated: {_plain(value)}")
        raise ConditionError(f"`{_short(self.source)}` gave {_show(value)}, not true or false")

    def value(self, activation: Activation) -> Any:
        """What the expression gives, for one that is no condition (`order_by`). Raises ConditionError."""
        try:
            result = self._whole.eval(activation)
        except RuntimeError as problem:
            raise ConditionError(f"`{_short(self.source)}` stopped: {_plain(problem)}") from problem
        if result.type() == cel.Type.ERROR:
            raise ConditionError(f"`{_short(self.source)}` cannot be evaluated: {_plain(result.value())}")
        return result.plain_value()

    def _why_not(self, activation: Activation) -> str:
        if self._parts is None:
            self._parts = [_part(clause) for clause in clauses.conjuncts(self.source)]
        for clause, whole, left in self._parts:
            if whole is None or whole.eval(activation).value() is not False:
                continue
            if left is None:
                return f"`{clause}` is false"
            return f"`{clause}` is false: it is {_show(left.eval(activation).plain_value())}"
        return f"`{_short(self.source)}` is false"


@lru_cache(maxsize=4096)
def compile(source: str) -> Condition:
    """Compile a condition, or say in the user's words why it cannot be one."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise Invalid(
            f"the condition is longer than {MAX_SOURCE_BYTES} bytes; split it over several triggers"
        )
    if clauses.depth(source) > MAX_DEPTH:
        raise Invalid(f"the condition nests deeper than {MAX_DEPTH} brackets")
    condition = Condition(source)
    kind = condition._whole.return_type().name()
    if kind not in _BOOLEAN:
        raise Invalid(f"the condition gives {kind}, not true or false: compare it with something")
    return condition


def _compiled(source: str) -> Any:
    try:
        return _ENV.compile(source)
    except RuntimeError as problem:
        raise Invalid(f"the condition is not valid CEL: {_plain(problem)}") from problem


def _part(clause: str) -> tuple[str, Any, Any]:
    left = clauses.compared(clause)
    try:
        return _short(clause), _ENV.compile(clause), _ENV.compile(left) if left else None
    except RuntimeError:
        return _short(clause), None, None


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

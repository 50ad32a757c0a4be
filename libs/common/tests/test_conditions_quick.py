"""What is answered without the library is what the library answers: verdict, reason and error, to the letter."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.common.conditions import Condition, ConditionError, activation, quick
from headgate.common.conditions.cel import Activation
from headgate.common.errors import Invalid

NAMES = ["a", "b", "labels", "ü", "a b"]
texts = st.sampled_from(
    ["", "a", "b", "ab", "high", "ü", "é", "\U0001f600", "\uffff", "x" * 150, 'q"\\', "\0", "a\0b"]
)
numbers = st.integers(-3, 3) | st.sampled_from(
    [2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, 1.0, -0.0, 1e300, float(2**63)]
)
scalars = st.none() | st.booleans() | numbers | texts
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
roots = st.dictionaries(st.sampled_from(NAMES), documents, max_size=5) | documents


def text_literal(text: str) -> str:
    return json.dumps(text)


literals = st.sampled_from(
    ["true", "false", "null", "0", "1", "-1", "2", "1.0", "0.5", "9223372036854775807", "1u", "b'a'"]
) | texts.map(text_literal)
steps = st.sampled_from(
    [".a", ".b", ".labels", '["a"]', '["a b"]', '["ü"]', "[0]", "[1]", "[-1]", '["missing"]']
)
paths = st.builds(lambda root, rest: root + "".join(rest), st.just("event.data"), st.lists(steps, max_size=3)) | (
    st.sampled_from(
        ["event.type", "event.source", "event.subject", "event.time", "event.id", "event.attributes.k",
         "event.fingerprint", "event.provider", "event.attributes", "event.nothing", 'event["data"].a', "event"]
    )
)  # fmt: skip
lists = st.lists(literals, max_size=4).map(lambda items: f"[{', '.join(items)}]")
values = (
    paths
    | literals
    | lists
    | paths.map(lambda path: f"size({path})")
    | paths.map(lambda path: f"{path}.size()")
)
comparisons = st.builds(
    lambda one, sign, other: f"{one} {sign} {other}",
    values,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in"]),
    values,
)
fields = paths.filter(lambda path: path.rsplit("]", 1)[-1].count(".") > 0)
tests = st.builds(
    lambda one, name, other: f"{one}.{name}({other})",
    values,
    st.sampled_from(["startsWith", "endsWith", "contains", "matches"]),
    values,
)
atoms = (
    comparisons | tests | paths | fields.map(lambda path: f"has({path})") | st.sampled_from(["true", "false"])
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(lambda one: f"!({one})"),
        st.builds(
            lambda one, sign, other: f"{one} {sign} {other}", inner, st.sampled_from(["&&", "||"]), inner
        ),
        st.builds(
            lambda one, sign, other: f"({one}) {sign} ({other})", inner, st.sampled_from(["&&", "||"]), inner
        ),
        st.builds(lambda one, yes, no: f"({one}) ? ({yes}) : ({no})", inner, inner, inner),
        st.builds(lambda path, inner: f"{path}.exists(x, x == {inner})", paths, literals),
    ),
    max_leaves=5,
)


def event(data: Any, **fields: Any) -> Activation:
    record = {
        "id": "e", "fingerprint": "f", "source": "s", "provider": "p", "type": "high", "subject": None,
        "occurred_at": 1_700_000_000_000_000, "attributes": {"k": "a"}, "data": orjson.dumps(data).decode(), **fields,
    }  # fmt: skip
    return activation(record, orjson.loads(record["data"]))


def outcome(condition: Condition, asked: Activation) -> tuple[Any, ...]:
    try:
        return tuple(condition.evaluate(asked))
    except ConditionError as problem:
        return ("error", str(problem))


def both(source: str, asked: Activation) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return outcome(Condition(source), asked), outcome(Condition(source, quickly=False), asked)


@settings(max_examples=400, deadline=None)
@example("event.data.a == ''", {"a": "\0b"}, "s")
@example("has(event.data.a)", {"a\0": 1}, "s")
@example("event.data.a == event.data.b", {"a": True, "b": 1}, "s")
@example("'a' in event.data", {"a": None}, "s")
@example("1 in event.data.a", {"a": [True, 1.0]}, "s")
@example("event.source == 'a'", {}, "a\0b")
@given(expressions, roots, texts)
def test_the_verdict_the_reason_and_the_error_are_the_librarys(source: str, data: Any, name: str) -> None:
    try:
        Condition(source, quickly=False)
    except Invalid:
        with pytest.raises(Invalid):
            Condition(source)
        return
    quickly, whole = both(source, event(data, source=name, subject=name))
    assert quickly == whole


EVERY_KIND: list[Any] = [
    None, True, False, 0, 1, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1.0, 0.5, 2.0**63,
    "", "a", "ab", "ü", "\U0001f600", "\uffff", "1", "\0", [], ["a"], [1, "a"], [1.0], [True], [None], [["a"]],
    {}, {"a": 1}, {"a": None, "ab": "x"}, {"ü": []},
]  # fmt: skip
OPERATIONS = (
    *(f"event.data.a {sign} event.data.b" for sign in ("==", "!=", "<", "<=", ">", ">=", "in", "&&", "||")),
    *(f"event.data.a.{name}(event.data.b)" for name in ("startsWith", "endsWith", "contains")),
    *(
        f"event.data.a {sign} {literal}"
        for sign in ("==", "<")
        for literal in ("1", "1.0", '"a"', "true", "null")
    ),
    "!event.data.a",
    "size(event.data.a) == 1",
    "event.data.a[1] == event.data.b",
    "event.data.a[-1] == event.data.b",
    "event.data.a.ab == event.data.b",
    "has(event.data.a.ab)",
    "event.data.b in ['a', 1, null]",
    "event.data.a == event.data.b && event.data.missing",
    "event.data.missing || event.data.a != event.data.b",
)


@pytest.mark.parametrize("source", OPERATIONS)
def test_every_operation_on_every_two_kinds_of_values_is_the_librarys(source: str) -> None:
    quickly, whole = Condition(source), Condition(source, quickly=False)
    for one in EVERY_KIND:
        for other in EVERY_KIND:
            asked = event({"a": one, "b": other})
            assert outcome(quickly, asked) == outcome(whole, asked), (one, other)


@pytest.mark.parametrize(
    "source",
    [
        'event.data.severity == "high" && "a" in event.data.labels',
        "event.type == 'push' || !has(event.data.x)",
        "event.data.a.b['c d'][0] != null && size(event.data.n) > 1",
        "event.data.s.startsWith('a') || event.data.s.endsWith('b') || event.data.s.contains('c')",
        "event.data.n in ['a', 'b'] && event.time > '2020'",
    ],
)
def test_common_conditions_do_not_need_the_library(source: str) -> None:
    assert Condition(source)._expression._step is not None


@pytest.mark.parametrize(
    "source",
    [
        "event.data.s.matches('a+')",
        "event.data.l.exists(x, x == 1)",
        "event.data.n + 1 == 2",
        "event == event",
    ],
)
def test_what_is_not_understood_is_left_to_the_library(source: str) -> None:
    assert Condition(source)._expression._step is None


def test_a_plain_comparison_prepares_nothing_for_the_library() -> None:
    asked = event({"severity": "low", "labels": ["a", 1, None]})
    verdict = Condition('event.data.severity == "high" && "a" in event.data.labels').evaluate(asked)
    assert verdict.reason == '`event.data.severity == "high"` is false: it is "low"'
    assert (
        Condition('"b" in event.data.labels')
        .evaluate(asked)
        .reason.endswith("is false: it is ['a', 1, None]")
    )
    assert asked._prepared is None


def test_every_field_of_an_event_is_seen_with_and_without_the_library() -> None:
    for name in (*quick.RECORD_FIELDS, "time", "data"):
        quickly, whole = both(f"event.{name} == 'x'", event({}))
        assert quickly == whole
        assert "false: it is" in whole[1]

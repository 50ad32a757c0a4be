"""Strict JSON against the standard library, and against what it must not let through."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.strict_json import DEEPEST, JsonLimits, NotStrictJson, loads

texts = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=200,
)


@given(documents, st.booleans())
def test_what_the_standard_library_writes_is_read_the_same(document: object, escaped: bool) -> None:
    assert loads(json.dumps(document, ensure_ascii=escaped).encode(), JsonLimits(depth=500)) == document


@given(documents, st.sampled_from(["a", ":", "\\", '"', "{", "é", ""]), st.booleans())
def test_a_name_given_twice_is_refused_wherever_it_stands(inner: object, name: str, escaped: bool) -> None:
    one = json.dumps(name)
    other = '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"' if escaped else one
    text = f'{{"x": [{json.dumps(inner)}, {{{one}: 1, "colons": "\\u003a\\u003A", {other}: 2}}]}}'
    with pytest.raises(NotStrictJson, match="twice"):
        loads(text.encode(), JsonLimits(depth=500))


def has_repeats(text: bytes) -> bool:
    found = False

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal found
        found |= len(dict(items)) != len(items)
        return dict(items)

    json.loads(text, object_pairs_hook=pairs)
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "a:", "\\u0061", "\\u003a"]),
            st.sampled_from(['"\\u003a"', "1", '":"']),
        )
    )
)
def test_names_are_counted_as_the_standard_library_counts_them(pairs: list[tuple[str, str]]) -> None:
    text = ("{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}").encode()
    if has_repeats(text):
        with pytest.raises(NotStrictJson):
            loads(text)
    else:
        assert loads(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"9" * 4301,
        b'"\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
        b'{"a": 1,}',
        b"{} {}",
        b"[" * 100_000,
        b'{"a":' * 2000,
        b"[" * 1000 + b"]" * 1000,
        b"[" * 65 + b"1" + b"]" * 65,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"[" + b"1," * 100_000 + b"1]",
        b"[" + b"[]," * 100_000 + b"1]",
        json.dumps({str(number): 0 for number in range(10_001)}).encode(),
    ],
    ids=lambda text: text[:20].decode("latin-1"),
)
def test_it_is_refused(text: bytes) -> None:
    with pytest.raises(NotStrictJson):
        loads(text)


def test_a_string_that_never_ends_is_refused_as_fast_as_any_other() -> None:
    bomb = b'"' + b'\\"' * 8_000 + b"," * 100_001
    before = time.thread_time()
    with pytest.raises(NotStrictJson):
        loads(bomb)
    assert time.thread_time() - before < 2  # of the processor: a busy machine changes nothing


def test_limits_are_reached_and_not_passed() -> None:
    assert loads(b"[" * 64 + b"1" + b"]" * 64)
    assert len(loads(b"[" + b"1," * 99_997 + b"1]")) == 99_998
    assert len(loads(json.dumps({str(number): 0 for number in range(10_000)}).encode())) == 10_000


@pytest.mark.parametrize(("before", "after"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_the_deepest_limit_there_can_be_is_reached_and_not_passed(before: bytes, after: bytes) -> None:
    limits = JsonLimits(depth=DEEPEST)
    assert loads(before * DEEPEST + b"1" + after * DEEPEST, limits)
    with pytest.raises(NotStrictJson):
        loads(before * (DEEPEST + 1) + b"1" + after * (DEEPEST + 1), limits)


def test_marks_inside_strings_count_for_nothing() -> None:
    text = json.dumps({"text": "[{,:" * 30_000, "deep": "[" * 500}).encode()
    assert loads(text) == json.loads(text)


def test_the_reason_does_not_quote_what_was_sent() -> None:
    with pytest.raises(NotStrictJson) as problem:
        loads(b'{"password": "canary-1", "password": "canary-2", }')
    assert "canary" not in str(problem.value)

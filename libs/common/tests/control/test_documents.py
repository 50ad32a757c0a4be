"""YAML with lines: every field knows where it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.control.documents import load, parse

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_what_json_says_is_what_is_read(value: object) -> None:
    loaded = parse(json.dumps({"value": value}, ensure_ascii=False))

    assert not loaded.problems
    assert loaded.documents[0].data == {"value": value}


@given(st.dictionaries(words.filter(bool), st.integers(), min_size=1, max_size=6))
def test_each_field_knows_its_line(value: dict[str, int]) -> None:
    rows = [f"{json.dumps(key, ensure_ascii=False)}: {number}" for key, number in value.items()]
    document = parse("\n# a comment\n" + "\n\n".join(rows)).documents[0]

    assert [document.line((key,)) for key in value] == [3 + 2 * index for index in range(len(value))]


def test_words_that_yaml_takes_for_something_else_stay_words() -> None:
    text = "on: no\nday: 2026-01-01\nclock: 12:30\ncode: 010\nhex: 0x1f"

    assert parse(text).documents[0].data == {
        "on": "no",
        "day": "2026-01-01",
        "clock": "12:30",
        "code": "010",
        "hex": "0x1f",
    }


def test_a_missing_field_is_looked_for_at_its_nearest_parent() -> None:
    document = parse("a:\n  b:\n    - c: 1\n").documents[0]

    assert document.line(("a", "b", 0, "nothing", "here")) == 3
    assert document.line(("nothing",)) == 1


def test_a_field_written_twice_is_a_problem_of_its_second_line() -> None:
    assert (
        str(parse("a: 1\nb: 2\na: 3", "x.yaml").problems[0])
        == "x.yaml:3: a: is written twice; keep one of the two"
    )


def test_anchors_and_merges_work_and_overriding_is_no_repetition() -> None:
    text = "base: &base {x: 1, y: 2}\none: &one\n  <<: *base\n  y: 3\ntwo: *one\n"
    loaded = parse(text)

    assert not loaded.problems
    assert loaded.documents[0].data == {
        "base": {"x": 1, "y": 2},
        "one": {"x": 1, "y": 3},
        "two": {"x": 1, "y": 3},
    }


def test_a_file_that_expands_without_end_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))

    assert "expand" in str(parse(bomb).problems[0])
    assert "contains itself" in str(parse("a: &a [*a]").problems[0])


def test_merge_keys_that_expand_without_end_are_refused_before_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.common.control.documents.MAX_NODES", 1000)
    bomb = "a0: &a0 {k: 1}\n"
    bomb += "".join(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 7))

    assert "merge keys expand to more than 1000" in str(parse(bomb + "<<: *a6\n").problems[0])


@pytest.mark.parametrize(
    "text", ["[" * 5000, '{"a":' * 5000, "a: " + "{b: " * 900 + "1" + "}" * 900, "a: &a\n  <<: *a\n  b: [*a]"]
)
def test_what_is_nested_without_end_is_a_problem_of_its_file(text: str) -> None:
    assert [problem.file for problem in parse(text, "deep.yaml").problems] == ["deep.yaml"]


def test_control_characters_and_stray_bytes_on_stdin_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "control characters" in parse("a: \x07", "x.yaml").problems[0].fix
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff"), "utf-8"))
    assert "UTF-8" in load(["-"]).problems[0].fix
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff"), "utf-8", "surrogateescape"))
    assert "UTF-8" in load(["-"]).problems[0].fix


def test_pairs_that_json_escapes_are_joined_and_half_a_character_is_refused() -> None:
    assert parse(json.dumps({"a": "\U0001f600", "\U0001f600": 1})).documents[0].data == {
        "a": "\U0001f600",
        "\U0001f600": 1,
    }
    for text in ('a:\n  b: "\\ud800"', 'a:\n  "\\udfff": 1'):
        (problem,) = parse(text, "x.yaml").problems
        assert str(problem).startswith("x.yaml:2: a")
        assert "half a character" in str(problem)


def test_what_is_no_json_is_refused_and_never_becomes_something_else() -> None:
    assert str(parse("a:\n  b: 1e999", "x.yaml").problems[0]).startswith("x.yaml:2: a.b: 1e999 is larger")
    assert "cannot be a key" in str(parse("a:\n  ? [b]\n  : 1", "x.yaml").problems[0])


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("a: b: c", 1, "quotes"),
        ("a:\n\t- b", 2, "tabs"),
        ("ok: 1\nlist: [1, 2", 2, "indentation"),
        ("a: !!python/object:os.system {}", 1, ""),
    ],
)
def test_what_is_no_yaml_names_its_line_and_a_hint(text: str, line: int, hint: str) -> None:
    problem = parse(text, "x.yaml").problems[0]

    assert problem.line in (line, line + 1)
    assert hint in problem.fix


def test_folders_are_searched_and_stdin_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    (tmp_path / "sub").mkdir()
    (tmp_path / "a.yaml").write_text("n: 1\n---\nn: 2\n")
    (tmp_path / "sub" / "b.yml").write_text("n: 3")
    (tmp_path / "sub" / "payload.json").write_text('{"n": 6}')
    (tmp_path / "readme.md").write_text("n: 4")
    monkeypatch.setattr("sys.stdin", io.StringIO("n: 5"))

    loaded = load([str(tmp_path), "-"])

    assert [document.data for document in loaded.documents] == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 5}]
    assert "no such file" in str(load([str(tmp_path / "nothing")]).problems[0])

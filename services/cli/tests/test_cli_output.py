"""Formats, times and screens, without Kafka."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from headgate.cli.commands.common import age, moment_ms, plural, short
from headgate.cli.commands.why import LINES, WIDTH, fitted, height
from headgate.cli.output import Column, View, show_all
from headgate.cli.session import Format, Screen, Session

VIEW: View[dict[str, Any]] = View(
    columns=[
        Column("NAME", lambda thing: str(thing["name"])),
        Column("N", lambda thing: str(thing["n"]), right=True),
        Column("TEXT", lambda thing: str(thing.get("text", "")), give=True),
    ],
    plain=lambda thing: thing,
    name=lambda thing: f"thing/{thing['name']}",
)
THINGS = [{"name": "one", "n": 1}, {"name": "another", "n": 22, "at": datetime(2026, 11, 18, 9, tzinfo=UTC)}]


def printed(output: Format, things: list[dict[str, Any]], width: int | None = None) -> tuple[str, str]:
    """What went to stdout and to stderr; with a width, stdout is a terminal."""
    out, err = io.StringIO(), io.StringIO()
    terminal = {"force_terminal": True, "width": width, "no_color": True} if width else {}
    session = Session(output=output, out=Console(file=out, **terminal), err=Console(file=err))  # type: ignore[arg-type]
    show_all(session, things, VIEW, "nothing there")
    return out.getvalue(), err.getvalue()


def test_json_yaml_and_jsonl_say_the_same() -> None:
    as_json = json.loads(printed(Format.json, THINGS)[0])
    as_yaml = list(yaml.safe_load_all(printed(Format.yaml, THINGS)[0]))
    as_lines = [json.loads(line) for line in printed(Format.jsonl, THINGS)[0].splitlines()]

    assert as_json == as_yaml == as_lines
    assert as_json[1]["at"] == "2026-11-18T09:00:00Z"


def test_name_is_one_name_a_line() -> None:
    assert printed(Format.name, THINGS)[0] == "thing/one\nthing/another\n"


def test_a_table_that_is_piped_is_cut_nowhere() -> None:
    things = [{"name": "x", "n": 5, "text": "long " * 100}]
    lines = printed(Format.table, things)[0].splitlines()

    assert len(lines) == 2
    assert lines[0].split() == ["NAME", "N", "TEXT"]
    assert lines[1].endswith("long")


def test_a_table_on_a_narrow_screen_keeps_names_whole_and_cuts_what_gives() -> None:
    things = [{"name": "a-name-of-some-length", "n": 5, "text": "x" * 500}]
    out = printed(Format.table, things, width=60)[0]

    assert "a-name-of-some-length" in out
    assert "…" in out
    assert max(len(Text.from_ansi(line).plain) for line in out.splitlines()) <= 60


@pytest.mark.parametrize("output", list(Format))
def test_nothing_is_said_on_stderr_and_stdout_stays_data(output: Format) -> None:
    out, err = printed(output, [])

    assert "nothing there" in err
    assert out.strip() in ("", "[]")


def test_columns_that_do_not_give_are_never_cut() -> None:
    things = [{"name": "n" * 50, "n": 10**9, "text": "x" * 50}]
    out = Text.from_ansi(printed(Format.table, things, width=40)[0]).plain

    assert "n" * 50 in out
    assert str(10**9) in out


def test_markup_in_data_is_data() -> None:
    assert "[bold]x[/nope]" in printed(Format.table, [{"name": "[bold]x[/nope]", "n": 1}])[0]


@pytest.mark.parametrize("output", list(Format))
def test_what_a_sender_wrote_steers_no_terminal(output: Format) -> None:
    out = io.StringIO()
    session = Session(output=output, out=Screen(file=out), err=Screen(file=out))
    evil = "\x1b[2J\x1b]0;title\x07\x9b31m\x7f"
    show_all(session, [{"name": f"x{evil}", "n": 1, "text": evil}], VIEW, "")
    session.out.print(f"plain {evil}", markup=False)
    session.say(evil)

    assert not set(out.getvalue()) & set("\x1b\x07\x9b\x7f")
    assert "\\u001b[2J" in out.getvalue() or "\\e[2J" in out.getvalue()


def test_control_characters_survive_in_data() -> None:
    out = io.StringIO()
    show_all(Session(Format.json, out=Screen(file=out)), [{"name": "a\x1b\x9b\x7f\n", "n": 1}], VIEW, "")

    assert json.loads(out.getvalue())[0]["name"] == "a\x1b\x9b\x7f\n"


@given(st.lists(st.text("ab ", max_size=700), max_size=60))
def test_a_story_of_any_length_fits_one_screen(texts: list[str]) -> None:
    for width in (WIDTH, 80, 40):
        lines = fitted([("title", text, "") for text in texts], width)

        assert sum(height(line, width) for line in lines) <= LINES


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (90, "90s"), (600, "10m"), (8000, "2h"), (10**6, "11d")]
)
def test_ages_have_one_unit(seconds: int, said: str) -> None:
    now = datetime(2026, 11, 18, tzinfo=UTC)

    assert age(now - timedelta(seconds=seconds), now) == said


def test_times_are_read_as_people_write_them() -> None:
    now = datetime.now(UTC).timestamp() * 1000

    assert moment_ms(None, "--since") is None
    assert moment_ms("1970-01-01T00:00:01Z", "--since") == 1000
    ago = moment_ms("2h", "--since")
    assert ago is not None
    assert abs(now - ago - 7_200_000) < 60_000
    with pytest.raises(typer.BadParameter, match="write 10m or 2h"):
        moment_ms("yesterday", "--since")


def test_words() -> None:
    assert (plural(1, "letter"), plural(1200, "letter")) == ("1 letter", "1,200 letters")
    assert short("a\n b  c", 4) == "a b…"

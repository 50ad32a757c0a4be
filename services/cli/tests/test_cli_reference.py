"""docs/reference/cli.md says what the command line does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import exits

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()


def test_the_page_lists_the_exit_codes_as_they_are() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)

    assert {int(code): meaning for code, meaning in rows} == exits.MEANING


@pytest.mark.parametrize("line", re.findall(r"^\| `headgate ([a-z ]+)", PAGE, re.MULTILINE))
def test_every_command_on_the_page_exists(line: str, headgate: Any) -> None:
    words = line.split()
    group = words[:2] if words[0] in ("events", "runs", "dlq", "topics") else words[:1]

    assert headgate(*group, "--help").code == 0


def test_every_command_is_on_the_page(headgate: Any) -> None:
    from headgate.cli.__main__ import build

    app = build([])
    names = [command.name for command in app.registered_commands]
    names += [
        f"{group.name} {command.name}"
        for group in app.registered_groups
        if group.typer_instance
        for command in group.typer_instance.registered_commands
    ]

    missing = [name for name in names if name and f"`headgate {name}" not in PAGE and f"{name}" not in PAGE]
    assert not missing

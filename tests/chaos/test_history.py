"""The strongest word about an event wins, and a request without an answer stays open."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from tests.harness.history import History, Type, promises, read


def test_promises_are_told_from_refusals_and_silences(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    answers: dict[int, list[str]] = {
        1: ["ok"],
        2: ["fail"],
        3: ["info"],
        4: ["info", "ok"],
        5: ["info", "fail"],
        6: [],
    }
    for seq, words in answers.items():
        for word in words or ["never"]:
            history.write("load", "post", "invoke", seq)
            if word != "never":
                history.write("load", "post", cast(Type, word), seq)
    history.write("nemesis", "fault", "info", victim="runner-1")
    history.close()
    assert promises(read(history.path)) == ({1, 4}, {2}, {3, 5, 6})


def test_each_line_is_there_before_the_next_step(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.write("load", "post", "invoke", 1, door="github")
    (line,) = read(history.path)
    assert (line["seq"], line["type"], line["meta"]) == (1, "invoke", {"door": "github"})
    history.close()

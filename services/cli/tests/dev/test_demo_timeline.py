"""The demo exits 0 for the promised story and for no other."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headgate.cli.dev import demo, demo_secret
from headgate.cli.dev.deliveries import Answer, Delivery, deliveries
from headgate.cli.dev.timeline import PROMISE, TRIGGER, Story, broken_promises, table

OPENED = Delivery("delivery-1", "issues", "issues.opened", b"{}")
EDITED = Delivery("delivery-2", "issues", "issues.edited", b"{}")


def verdict(outcome: str, run_id: str | None = None) -> dict[str, Any]:
    return {"trigger": TRIGGER, "outcome": outcome, "reason": f"because {outcome} [x]", "run_id": run_id}


def run(run_id: str, event_id: str = "e1", **more: str) -> dict[str, Any]:
    values = {"run_id": run_id, "event_id": event_id, "state": "started", "engine": "local"}
    return {**values, "answer": "written", "handle": "", "error": "", **more}


def story(
    outcomes: list[str] = PROMISE, runs: tuple[str, ...] = ("run-1",), statuses: tuple[int, ...] = (202,) * 4
) -> Story:
    events = ["e1", "e2", "e3", "e4"]
    told = Story(
        [
            Answer(delivery, status, {"event_id": event})
            for delivery, status, event in zip([OPENED] * 3 + [EDITED], statuses, events, strict=True)
        ]
    )
    for event, outcome in zip(events, outcomes, strict=True):
        run_id = "run-1" if outcome == "started" else None
        told.hear("Decision", {"event_id": event, "verdicts": [verdict(outcome, run_id)]})
    for run_id in runs:
        told.hear("Run", run(run_id))
    return told


def test_the_promised_story_is_complete_and_breaks_nothing() -> None:
    told = story()
    assert told.complete()
    assert broken_promises(told) == []


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (story(["started", "started", "duplicate", "filtered"]), "webhook 2 was decided 'started'"),
        (story(["started", "duplicate", "duplicate", "started"]), "webhook 4 was decided 'started'"),
        (story(["error", "duplicate", "duplicate", "filtered"], runs=()), "because error"),
        (story(runs=()), "there are 0 runs"),
        (story(runs=("run-1", "run-2")), "there are 2 runs"),
        (story(statuses=(202, 202, 503, 202)), "webhook 3 was answered 503"),
    ],
)
def test_any_other_story_is_told_in_words(told: Story, words: str) -> None:
    assert any(words in sentence for sentence in broken_promises(told))


def test_a_run_that_was_dead_lettered_is_no_run() -> None:
    told = story(runs=())
    told.hear("Run", run("run-1", state="dead_lettered", error="the engine said 400"))
    assert "the engine said 400" in broken_promises(told)[0]


def test_nothing_is_complete_before_the_last_decision_and_the_run() -> None:
    assert not story(runs=()).complete()
    told = story()
    del told.decisions["e4"]
    assert not told.complete()


def test_records_of_other_events_are_passed_over() -> None:
    told = story()
    told.hear("Decision", {"event_id": "somebody", "verdicts": [verdict("error")]})
    told.hear("Run", run("other", event_id="somebody"))
    assert broken_promises(told) == []


def test_the_table_fits_a_narrow_terminal_and_shows_reasons_as_they_are() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table(story()))
    text = console.export_text()
    assert "because filtered [x]" in text
    assert "started by local" in text
    assert max(map(len, text.splitlines())) <= 80


def test_webhooks_are_signed_as_github_signs_them() -> None:
    # GitHub's own vector: docs.github.com, "Validating webhook deliveries"
    vector = Delivery("id", "ping", "ping", b"Hello, World!").headers("It's a Secret to Everybody")
    assert (
        vector["X-Hub-Signature-256"]
        == "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


def test_the_same_issue_is_delivered_three_times_and_each_demo_has_its_own_ids() -> None:
    one, two = deliveries(demo.examples()), deliveries(demo.examples())
    assert [len({d.id for d in one[:3]}), one[3].id != one[0].id] == [1, True]
    assert {d.id for d in one}.isdisjoint(d.id for d in two)
    assert json.loads(one[0].body)["action"] == "opened"


def test_the_secret_is_made_once_for_our_eyes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(demo_secret.SECRET_VARIABLE, raising=False)
    assert demo_secret.secret_env(tmp_path) == {}
    made = demo_secret.secret_env(tmp_path, create=True)
    assert demo_secret.secret_env(tmp_path) == made
    assert (tmp_path / demo_secret.SECRET_FILE).stat().st_mode & 0o077 == 0
    monkeypatch.setenv(demo_secret.SECRET_VARIABLE, "mine")
    assert demo_secret.secret_env(tmp_path) == {demo_secret.SECRET_VARIABLE: "mine"}

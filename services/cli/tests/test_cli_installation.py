"""topics, doctor, runs, events on a real Kafka; and what is said when there is none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KAFKA = pytest.mark.kafka


def eventually(ask: Callable[[], Any], holds: Callable[[Any], bool], seconds: float = 30) -> Any:
    """The first answer that holds."""
    until = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < until, answer
    return answer


@KAFKA
def test_topics_that_are_right_are_ok_and_a_wrong_one_is_exit_1(world: Any, headgate: Any) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    assert headgate("topics", "check").code == 0
    topic = world.connection.topics.runs
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    world.connection.admin.incremental_alter_configs([resource])[resource].result(timeout=10)

    # A broker learns of a new setting a moment after it was accepted.
    wrong = eventually(lambda: headgate("topics", "check", "-o", "json"), lambda answer: answer.code == 1)
    assert [one["topic"] for one in wrong.data if one["state"] == "wrong"] == [topic]
    assert "run headgate topics apply" in headgate("topics", "check").out
    assert headgate("topics", "apply").code == 0
    eventually(lambda: headgate("topics", "check"), lambda answer: answer.code == 0)


@KAFKA
def test_topics_list_says_what_each_is_for(world: Any, headgate: Any) -> None:
    world.event()
    rows = {row["name"]: row for row in headgate("topics", "list", "-o", "json").data}

    assert rows[world.connection.topics.raw]["records"] >= 1
    assert rows[world.connection.topics.raw]["schema"] == "RawEvent"


@KAFKA
def test_doctor_is_content_with_what_is_right_and_says_how_to_start_services(
    world: Any, headgate: Any
) -> None:
    answer = headgate("doctor", "-o", "json")
    checks = {check["check"]: check for check in answer.data}

    assert answer.code == (1 if checks["processor"]["state"] == "fail" else 0)
    for name in ("broker", "registry", "topics", "schemas", "clocks", "dlq"):
        assert checks[name]["state"] == "ok", checks[name]
    assert checks["processor"]["state"] in ("warn", "fail")
    assert "python -m headgate.processor" in checks["processor"]["fix"]


@KAFKA
def test_doctor_fails_without_topics_and_names_the_command(world: Any, headgate: Any) -> None:
    answer = headgate("--prefix", "nobody", "doctor")

    assert answer.code == 1
    assert "headgate topics apply" in answer.out


@KAFKA
def test_runs_are_listed_newest_first_each_once(world: Any, headgate: Any) -> None:
    first, second = world.event(), world.event()
    world.run(first, "listed", state="dead_lettered", error="engine said 400")
    again = world.run(first, "listed")
    other = world.run(second, "listed", state="dead_lettered", error="engine said 400")

    def ids(*options: str) -> list[str]:
        rows = headgate("runs", "list", "--trigger", "listed", "-o", "json", *options).data
        return [row["run_id"] for row in rows]

    assert ids() == [other, again]
    assert ids("--state", "dead_lettered") == [other]
    assert ids("--limit", "1") == [other]
    assert ids("--since", "1h") == [other, again]
    assert headgate("runs", "show", other, "-o", "json").data["error"] == "engine said 400"
    assert headgate("runs", "show", "0b6ad6a5-5dd4-5c3a-a9f7-9a4a1f3d7d2f").code == 3


@KAFKA
def test_events_tail_shows_ours_and_other_programs_records(world: Any, headgate: Any) -> None:
    event = world.event(source="tailed")
    world.raw(world.connection.topics.raw, None, b'{"x": 1}', [("ce_type", b"order.paid")])

    lines = [
        json.loads(line)
        for line in headgate("events", "tail", "--since", "1h", "-o", "jsonl").out.splitlines()
    ]

    assert event["id"] in {line["id"] for line in lines}
    assert {"x": 1} in [line["data"] for line in lines if line["type"] == "order.paid"]
    only = headgate("events", "tail", "--source", "tailed", "-o", "name").out
    assert only == event["id"] + "\n"


def test_an_unreachable_broker_is_exit_5_with_the_next_step(headgate: Any) -> None:
    answer = headgate("get", "triggers", "--bootstrap", "127.0.0.1:1")

    assert answer.code == 5
    assert answer.out == ""
    assert "headgate dev" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_an_invalid_document_needs_no_broker_to_be_told(headgate: Any) -> None:
    answer = headgate("apply", "-f", "-", "--bootstrap", "127.0.0.1:1", stdin="kind: Trigger\n")

    assert answer.code == 4
    assert "<stdin>:1: apiVersion: is missing" in answer.err


def test_a_misspelt_command_or_option_is_exit_2(headgate: Any) -> None:
    assert headgate("aply").code == 2
    assert headgate("get", "tigers", "--bootstrap", "127.0.0.1:1").code == 2
    assert headgate("dlq", "list", "--since", "yesterday", "--bootstrap", "127.0.0.1:1").code == 2


def test_a_running_dev_of_this_folder_gives_the_addresses_and_flags_win(
    headgate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADGATE_KAFKA__BOOTSTRAP", "HEADGATE_REGISTRY__URL", "HEADGATE_KAFKA__PREFIX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".headgate").mkdir()
    (tmp_path / ".headgate" / "dev.json").write_text(
        '{"bootstrap": "127.0.0.1:2", "registry": "http://127.0.0.1:3"}'
    )

    quiet = headgate("get", "triggers")
    loud = headgate("-v", "get", "triggers")
    flag = headgate("get", "triggers", "--bootstrap", "127.0.0.1:4")

    assert "127.0.0.1:2" in quiet.err
    assert "dev.json" not in quiet.err
    assert "dev.json" in loud.err
    assert "127.0.0.1:4" in flag.err


def test_help_names_every_exit_code(headgate: Any) -> None:
    said = " ".join(headgate("--help").out.split())

    for code in ("0 done", "3 no trigger", "4 a document is invalid", "5 Kafka or the Schema Registry"):
        assert code in said


def test_version_is_data_too(headgate: Any) -> None:
    assert "librdkafka" in headgate("version", "-o", "json").data

"""apply, get, describe, delete on a real Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headgate.common.control.store import read_state

pytestmark = pytest.mark.kafka

TRIGGER = """apiVersion: headgate/v1
kind: Trigger
metadata: {{name: {name}, owner: sre}}
sources:
  - provider: events
    match: {{type: "invoice.*"}}
when: event.data.amount > {limit}
action:
  local: {{note: x}}
"""


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex[:8]}"


def test_what_is_applied_can_be_got_described_and_applied_again(world: Any, headgate: Any, name: str) -> None:
    first = headgate("apply", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))
    got = headgate("get", "trigger", name, "-o", "yaml")
    again = headgate("apply", "-f", "-", stdin=got.out)

    assert first.out == f"trigger/{name} created (revision 1)\n", first.err
    assert again.out == f"trigger/{name} unchanged\n"
    assert "event.data.amount > 10" in headgate("describe", "trigger", name).out
    assert headgate("get", "triggers", "-o", "name").out.count(f"trigger/{name}\n") == 1
    assert name in headgate("get", "triggers").out


def test_an_edit_is_the_next_revision(world: Any, headgate: Any, name: str) -> None:
    headgate("apply", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))
    edited = headgate("apply", "-f", "-", "-o", "json", stdin=TRIGGER.format(name=name, limit=20))

    assert [(change["action"], change["revision"]) for change in edited.data] == [("changed", 2)]
    assert read_state(world.connection).triggers[name].spec.when == "event.data.amount > 20"


def test_one_invalid_document_keeps_all_of_a_folder_from_being_written(
    world: Any, headgate: Any, name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(TRIGGER.format(name=name, limit=10))
    (tmp_path / "b.yaml").write_text(TRIGGER.format(name="other", limit=10).replace("when", "whem"))

    refused = headgate("apply", "-f", str(tmp_path))

    assert refused.code == 4
    assert refused.out == ""
    assert f'{tmp_path}/b.yaml:7: whem: unknown field; did you mean "when"?' in refused.err
    assert "nothing was written" in refused.err
    assert name not in read_state(world.connection).triggers


def test_a_dry_run_says_what_would_be_and_writes_nothing(world: Any, headgate: Any, name: str) -> None:
    dry = headgate("apply", "--dry-run", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))

    assert dry.out == f"trigger/{name} created (revision 1)\n"
    assert "nothing was written" in dry.err
    assert name not in read_state(world.connection).triggers


def test_a_deleted_trigger_is_gone_and_a_missing_one_is_exit_3(world: Any, headgate: Any, name: str) -> None:
    headgate("apply", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))

    assert headgate("delete", "trigger", name).code == 0

    missing = headgate("get", "trigger", name)
    assert missing.code == 3
    assert f"there is no trigger {name}" in missing.err
    assert headgate("delete", "trigger", name).code == 3


def test_a_record_that_nobody_can_read_does_not_hide_the_others(world: Any, headgate: Any, name: str) -> None:
    headgate("apply", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))
    world.raw(world.connection.topics.triggers, b"broken", b"\x00\x00")

    got = headgate("get", "triggers", "-o", "name")
    world.raw(world.connection.topics.triggers, b"broken", None)

    assert f"trigger/{name}" in got.out
    assert "trigger/broken cannot be read" in got.err


def test_a_trigger_of_another_version_says_what_it_lacks_and_can_be_deleted(
    world: Any, headgate: Any, name: str
) -> None:
    headgate("apply", "-f", "-", stdin=TRIGGER.format(name=name, limit=10))
    stored = read_state(world.connection).triggers[name]
    spec = stored.record()["spec"].replace('"local":', '"teleport":')
    value = world.connection.codec.encode("TriggerRecord", {**stored.record(), "spec": spec})
    world.raw(world.connection.topics.triggers, name.encode(), value)

    got = headgate("get", "trigger", name)
    assert got.code == 1
    assert "action.teleport: Extra inputs are not permitted" in got.err
    assert f"headgate delete trigger {name}" in got.err
    assert headgate("delete", "trigger", name).code == 0
    assert headgate("get", "trigger", name).code == 3

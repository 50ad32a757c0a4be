"""The whole processor as a process, against a real Kafka and a real registry."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.kafka


def test_one_event_becomes_one_matched_record_and_its_repeat_a_duplicate(world: Any) -> None:
    uid = world.trigger("t", when="event.data.n == 1")
    world.start().wait_ready()
    world.publish(world.event("a"), world.event("a"), world.event("b", {"n": 2}))
    decisions = world.wait_decisions(3)
    matched = world.matched()
    assert [(one["trigger"], one["trigger_uid"], one["event"]["fingerprint"]) for one in matched] == [
        ("t", uid, "github/gh:a")
    ]
    outcomes = sorted(one["verdicts"][0]["outcome"] for one in decisions)
    assert outcomes == ["duplicate", "filtered", "started"]
    filtered = next(one for one in decisions if one["verdicts"][0]["outcome"] == "filtered")
    assert filtered["verdicts"][0]["reason"] == "`event.data.n == 1` is false: it is 2"

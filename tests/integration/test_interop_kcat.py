"""kcat shows what a person at a terminal needs: keys, headers, and why a dead letter died."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture
def kcat(told: Any) -> Any:
    """`kcat(topic, format)`: what it prints, by line."""
    path = shutil.which("kcat") or shutil.which("kafkacat")
    if path is None:
        pytest.skip("reading with kcat was NOT tested: it is not installed (Debian: apt install kcat)")

    def run(topic: str, form: str) -> list[str]:
        done = subprocess.run(
            [path, "-b", told.bootstrap, "-C", "-e", "-q", "-t", topic, "-f", form],
            capture_output=True,
            timeout=60,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace").splitlines()

    return run


def test_keys_and_cloudevents_headers_of_raw_events_are_text(told: Any, kcat: Any) -> None:
    [line] = [one for one in kcat(told.topics.raw, "%k %h\n") if one.startswith(told.fingerprint)]
    for header in (
        "content-type=application/avro",
        f"ce_id={told.event_id}",
        "ce_type=issues.opened",
        "traceparent=00-",
    ):
        assert header in line


def test_a_dead_letter_says_why_where_and_what_to_do(told: Any, kcat: Any) -> None:
    [line] = kcat(told.topics.dlq, "%k %h\n")
    assert line.startswith("poison ")
    assert f"__connect.errors.topic={told.topics.raw}" in line
    assert "__connect.errors.exception.message=" in line
    assert "headgate.stage=processor" in line
    assert "headgate.next=" in line


def test_a_dead_letter_keeps_the_bytes_as_they_came(told: Any, kcat: Any) -> None:
    assert kcat(told.topics.dlq, "%s\n") == ["\x07not our framing"]

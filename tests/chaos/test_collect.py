"""What is expected of cron is known from the topic as well as from the engine."""

from __future__ import annotations

from tests.harness import ids
from tests.harness.collect import _slots
from tests.harness.evidence import RunRow
from tests.harness.observers import Record
from tests.harness.pipeline import CRON


def stored(second: int) -> Record:
    key = f"cron/{CRON}:2026-11-19T02:00:{second:02d}Z".encode()
    return Record("raw", 0, second, 0, key, b"", ())


def test_a_slot_that_was_stored_last_and_never_ran_is_expected() -> None:
    ran = [RunRow("some", "slot 2026-11-19T02:00:01Z"), RunRow("other", "hg0001-000001")]
    found = _slots("chaos", ran, [stored(3), Record("raw", 0, 9, 0, None, b"", ())])
    assert [one.token for one in found] == [f"slot 2026-11-19T02:00:0{second}Z" for second in (1, 2, 3)]
    assert found[-1].run_id == ids.run_id("chaos", CRON, f"cron/{CRON}:2026-11-19T02:00:03Z")


def test_without_a_slot_nothing_is_expected_of_cron() -> None:
    assert _slots("chaos", [], []) == []

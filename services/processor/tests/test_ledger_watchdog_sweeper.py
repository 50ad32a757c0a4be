"""The small pure parts: which offset may be committed, when a stall is one, what may be forgotten."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.processor.batching import Batch, Ledger
from headgate.processor.sightings import Sighting, encode
from headgate.processor.store import FingerprintStore
from headgate.processor.sweeper import STEP, Sweeper
from headgate.processor.watchdog import Seen, Watchdog


@given(st.permutations(range(6)), st.integers(0, 6))
def test_only_an_unbroken_run_of_finished_batches_is_committable(order: list[int], finished: int) -> None:
    ledger: Ledger[str] = Ledger()
    batches = [Batch("p", ["r"], number * 10 + 9) for number in range(6)]
    for batch in batches:
        ledger.add(batch)
    done = set(order[:finished])
    for number in order[:finished]:
        batches[number].finish()
    prefix = next(number for number in range(7) if number not in done)
    assert ledger.committable("p") == (prefix * 10 if prefix else None)
    assert ledger.unfinished == 6 - finished
    assert ledger.committable("p") is None


def test_a_batch_of_a_lost_partition_commits_nothing_however_late_it_finishes() -> None:
    woken: list[int] = []
    ledger: Ledger[str] = Ledger(lambda: woken.append(1))
    old = Batch("p", ["r"], 9)
    ledger.add(old)
    ledger.forget("p")
    assert ledger.unfinished == 0
    new = Batch("p", ["r"], 4)
    ledger.add(new)
    old.finish()
    assert ledger.committable("p") is None
    assert ledger.unfinished == 1
    new.finish()
    assert ledger.committable("p") == 5
    assert len(woken) == 2


SIZES = st.lists(st.tuples(st.sampled_from("pqr"), st.integers(1, 9)), min_size=1)


@given(SIZES, st.integers(1, 30))
def test_what_is_worked_on_together_leaves_no_gap_in_any_partition(
    handed_out: list[tuple[str, int]], most: int
) -> None:
    ledger: Ledger[str] = Ledger()
    offsets = dict.fromkeys("pqr", 0)
    batches = []
    for partition, size in handed_out:
        offsets[partition] += size
        batches.append(Batch(partition, ["r"] * size, offsets[partition] - 1))
        ledger.add(batches[-1])
    while unfinished := [batch for batch in batches if not batch.finished]:
        together = ledger.together(unfinished[0], most)
        assert together[0] is unfinished[0]
        assert len(together) == 1 or sum(batch.size for batch in together) <= most
        for batch in together:
            batch.finish()
        for partition in "pqr":
            mine = [batch for batch in batches if batch.partition == partition]
            flags = [batch.finished for batch in mine]
            assert flags == sorted(flags, reverse=True), "a batch was taken before one that lies before it"
    assert ledger.unfinished == ledger.unfinished_records == 0
    assert [ledger.committable(one) for one in "pqr"] == [offsets[one] or None for one in "pqr"]


def test_a_forgotten_batch_takes_no_other_along() -> None:
    ledger: Ledger[str] = Ledger()
    old, other = Batch("p", ["r"], 0), Batch("q", ["r"], 0)
    ledger.add(old)
    ledger.add(other)
    ledger.forget("p")
    assert ledger.together(old, 100) == [old]


def look(dog: Watchdog, now: float, done: int, end: int, **more: Any) -> tuple[list[str], bool]:
    return dog.look(Seen({("raw", 1): (done, end)}, **more), now)


def test_lag_without_progress_is_said_and_then_fatal() -> None:
    dog = Watchdog(30, 120)
    assert look(dog, 0, 5, 9) == ([], False)
    stalls, exit_now = look(dog, 31, 5, 12)
    assert stalls == ["raw/1 has been at offset 5 of 12 for 31 s"]
    assert not exit_now
    assert look(dog, 121, 5, 12)[1]


def test_progress_or_an_empty_partition_is_no_stall() -> None:
    dog = Watchdog(30, 120)
    for now in range(0, 500, 20):
        assert look(dog, now, now, now + 5) == ([], False)
    for now in range(500, 1000, 20):
        assert look(dog, now, 500, 500) == ([], False)
    assert look(dog, 1001, 500, 501) == ([], False)


def test_what_waits_for_the_registry_is_not_ready_and_lives() -> None:
    dog = Watchdog(30, 120)
    look(dog, 0, 5, 9, excused=True)
    stalls, exit_now = look(dog, 1000, 5, 9, excused=True)
    assert stalls
    assert not exit_now


def test_a_recovery_that_moves_is_left_alone_and_one_that_does_not_is_ended() -> None:
    dog = Watchdog(30, 120)
    for now in range(0, 600, 10):
        assert dog.look(Seen({}, "recovering", now), now) == ([], False)
    assert dog.look(Seen({}, "recovering", 590), 720)[1]


class Table:
    """A sweeper's table."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries = entries

    def owned(self) -> list[int]:
        return [0]

    def scan(self, partition: int, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return sorted((key, value) for key, value in self.entries.items() if key > after)[:limit]

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None:
        del self.entries[key]


def test_only_what_its_window_has_passed_is_forgotten_a_bounded_step_at_a_time() -> None:
    entries = {f"k{number:05}".encode(): encode((Sighting("a", 0, 0, 1, number),)) for number in range(2_000)}
    sweeper = Sweeper(Table(dict(entries)))
    assert sweeper.step(0, 100) == []
    sweeper.saw(0, 1_100)
    first = sweeper.step(0, 100)
    assert len(first) == STEP
    gone = set(first)
    for _ in range(4):
        gone.update(sweeper.step(0, 100))
    assert gone == set(list(entries)[:1_000])


def test_the_store_is_what_faust_asks_for() -> None:
    assert not FingerprintStore.__abstractmethods__

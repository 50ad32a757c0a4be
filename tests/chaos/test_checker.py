"""The judge is judged: every broken promise must be found, and by its right name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.harness.checker import RULES, check
from tests.harness.evidence import (
    CursorSeen,
    DeadLetter,
    Evidence,
    Expected,
    Matched,
    OffsetSample,
    RunRow,
    Served,
)
from tests.harness.plan import token

NEW = [token(1, seq) for seq in range(6)]
FILTERED, POISON, UNSURE, REFUSED = (token(1, seq) for seq in range(6, 10))


def healthy() -> Evidence:
    """A run where everything went as promised, with one silence that did run."""
    kinds = [(name, "new") for name in [*NEW, UNSURE, REFUSED]] + [(FILTERED, "filtered"), (POISON, "poison")]
    ran = [*NEW, UNSURE]
    return Evidence(
        expected=tuple(Expected(name, kind, f"run-{name}") for name, kind in kinds),
        accepted=frozenset([*NEW, FILTERED, POISON]),
        refused=frozenset([REFUSED]),
        unsure=frozenset([UNSURE]),
        runs=tuple(RunRow(f"run-{name}", name) for name in ran),
        attempts=tuple((f"run-{name}", 100 + n) for n, name in enumerate(ran)),
        filtered=frozenset([FILTERED]),
        dead=(DeadLetter(POISON, ("raw", 0, 7), "sha-7", "condition"),),
        originals={("raw", 0, 7): "sha-7"},
        offsets=(
            OffsetSample(150, "runner", "matched", 0, 3),
            OffsetSample(250, "runner", "matched", 0, 7),
        ),
        cursors=(CursorSeen(1000, "issues", 2), CursorSeen(2000, "issues", 3)),
        served=(Served("issues", 1, 900), Served("issues", 2, 990), Served("issues", 3, 1900)),
        matched=tuple(Matched(0, n, f"run-{name}") for n, name in enumerate(ran)),
        runner_group="runner",
        matched_topic="matched",
        once_each=True,
    )


def drop_a_run(seen: Evidence) -> Evidence:
    return replace(seen, runs=seen.runs[1:])


def double_a_run(seen: Evidence) -> Evidence:
    return replace(seen, runs=(*seen.runs, replace(seen.runs[0], run_id="run-again")))


def swap_two_runs(seen: Evidence) -> Evidence:
    first, second, *rest = seen.runs
    return replace(seen, runs=(replace(first, token=second.token), replace(second, token=first.token), *rest))


def add_an_unknown_run(seen: Evidence) -> Evidence:
    return replace(seen, runs=(*seen.runs, RunRow("run-x", token(2, 1))))


def run_what_was_refused(seen: Evidence) -> Evidence:
    return replace(seen, runs=(*seen.runs, RunRow(f"run-{REFUSED}", REFUSED)))


def run_what_was_filtered(seen: Evidence) -> Evidence:
    return replace(seen, runs=(*seen.runs, RunRow(f"run-{FILTERED}", FILTERED)))


def run_poison(seen: Evidence) -> Evidence:
    return replace(seen, runs=(*seen.runs, RunRow(f"run-{POISON}", POISON)))


def forget_a_filtered_decision(seen: Evidence) -> Evidence:
    return replace(seen, filtered=frozenset())


def drop_the_dead_letter(seen: Evidence) -> Evidence:
    return replace(seen, dead=())


def bury_a_good_event(seen: Evidence) -> Evidence:
    letter = DeadLetter(NEW[0], ("raw", 0, 1), "sha-1")
    return replace(seen, dead=(*seen.dead, letter), originals={**seen.originals, ("raw", 0, 1): "sha-1"})


def change_a_dead_byte(seen: Evidence) -> Evidence:
    return replace(seen, dead=(replace(seen.dead[0], sha="sha-8"),))


def lose_the_coordinates(seen: Evidence) -> Evidence:
    return replace(seen, dead=(replace(seen.dead[0], origin=None),))


def bury_twice(seen: Evidence) -> Evidence:
    return replace(seen, dead=seen.dead * 2)


def move_an_offset_back(seen: Evidence) -> Evidence:
    return replace(seen, offsets=(*seen.offsets, OffsetSample(300, "runner", "matched", 0, 6)))


def commit_ahead(seen: Evidence) -> Evidence:
    return replace(seen, offsets=(OffsetSample(99, "runner", "matched", 0, 1), *seen.offsets))


def move_a_cursor(seen: Evidence) -> Evidence:
    first, *rest = seen.cursors
    return replace(seen, cursors=(replace(first, position=first.position + 1), *rest))


def lose_a_served_item(seen: Evidence) -> Evidence:
    return replace(seen, served=(*seen.served[:-1], replace(seen.served[-1], appended_ms=None)))


MUTATIONS = [
    (drop_a_run, {"lost"}),
    (double_a_run, {"doubled", "misnamed"}),
    (swap_two_runs, {"misnamed"}),
    (add_an_unknown_run, {"phantom"}),
    (run_what_was_refused, {"leaked", "phantom"}),
    (run_what_was_filtered, {"leaked"}),
    (run_poison, {"leaked"}),
    (forget_a_filtered_decision, {"lost"}),
    (drop_the_dead_letter, {"lost", "dlq missing"}),
    (bury_a_good_event, {"dlq unexpected"}),
    (change_a_dead_byte, {"dlq bytes"}),
    (lose_the_coordinates, {"dlq bytes"}),
    (bury_twice, {"dlq doubled"}),
    (move_an_offset_back, {"offsets back"}),
    (commit_ahead, {"offsets ahead"}),
    (move_a_cursor, {"cursor ahead"}),
    (lose_a_served_item, {"cursor ahead"}),
]


def test_a_healthy_run_is_green_and_counts_its_silences() -> None:
    verdict = check(healthy())
    assert verdict.findings == {}
    assert (verdict.info_run, verdict.info_not_run) == (1, 0)
    assert verdict.attempts == {1: 7}


@pytest.mark.parametrize(("mutate", "names"), MUTATIONS, ids=lambda value: getattr(value, "__name__", None))
def test_each_mutation_turns_red_by_its_right_name(
    mutate: Callable[[Evidence], Evidence], names: set[str]
) -> None:
    assert set(check(mutate(healthy())).findings) == names


def test_every_rule_is_proven_by_a_mutation() -> None:
    assert set().union(*(names for _, names in MUTATIONS)) == set(RULES)


def test_an_event_that_was_sent_into_silence_may_stay_without_a_run() -> None:
    seen = healthy()
    silent = replace(seen, runs=tuple(row for row in seen.runs if row.token != UNSURE))
    verdict = check(silent)
    assert verdict.good
    assert (verdict.info_run, verdict.info_not_run) == (0, 1)


def test_what_was_healed_needs_its_run_and_may_have_a_dead_letter() -> None:
    seen = healthy()
    kinds = {POISON: "healed"}
    healed = replace(
        seen,
        expected=tuple(replace(one, kind=kinds.get(one.token, one.kind)) for one in seen.expected),
        runs=(*seen.runs, RunRow(f"run-{POISON}", POISON)),
    )
    assert check(healed).good
    assert set(check(replace(healed, runs=seen.runs)).findings) == {"lost"}
    assert check(replace(healed, dead=())).good


def test_work_done_twice_is_counted_and_is_no_fault() -> None:
    seen = healthy()
    again = replace(
        seen,
        attempts=(*seen.attempts, (f"run-{NEW[0]}", 400)),
        matched=(*seen.matched, Matched(0, 7, f"run-{NEW[0]}")),
    )
    verdict = check(again)
    assert verdict.good
    assert verdict.re_emits == 1
    assert verdict.attempts == {1: 6, 2: 1}

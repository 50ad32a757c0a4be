"""The verdict: sets in, named findings out. Pure, so that it can be proven by breaking its evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.harness.evidence import Evidence

DEADLY = ("poison", "healed")
"""Kinds that may be dead-lettered. What was healed must have its run; sent after its cause was gone, no letter."""


@dataclass(frozen=True)
class Verdict:
    """`findings` maps the name of a broken promise to what broke it; empty means that every promise held."""

    findings: dict[str, list[str]] = field(default_factory=dict)
    info_run: int = 0
    info_not_run: int = 0
    re_emits: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    """How many runs took so many requests."""

    @property
    def good(self) -> bool:
        return not self.findings


def check(seen: Evidence) -> Verdict:
    findings = {name: found for name, rule in RULES.items() if (found := sorted(set(rule(seen))))}
    run_tokens = {row.token for row in seen.runs}
    tries = Counter(run_id for run_id, _ in seen.attempts)
    matched = Counter(record.run_id for record in seen.matched)
    return Verdict(
        findings=findings,
        info_run=len(seen.unsure & run_tokens),
        info_not_run=len(seen.unsure - run_tokens),
        re_emits=sum(count - 1 for count in matched.values()),
        attempts=dict(sorted(Counter(tries[row.run_id] for row in seen.runs).items())),
    )


def lost(seen: Evidence) -> Iterator[str]:
    """Accepted, and it came to nothing."""
    ran = {row.token for row in seen.runs}
    dead = {letter.token for letter in seen.dead}
    for one in seen.expected:
        ended = {"new": ran, "filtered": seen.filtered, "poison": dead, "healed": ran}[one.kind]
        if one.token in seen.accepted and one.token not in ended:
            yield one.token


def phantom(seen: Evidence) -> Iterator[str]:
    """A run that nothing sent can explain, be it by its event or by its id."""
    asked = {one.token: one.run_id for one in seen.expected if one.token in seen.accepted | seen.unsure}
    for row in seen.runs:
        if row.token not in asked:
            yield f"{row.token or 'no token'} as {row.run_id}"


def misnamed(seen: Evidence) -> Iterator[str]:
    """A run whose id is not the one its event and trigger give."""
    asked = {one.token: one.run_id for one in seen.expected}
    for row in seen.runs:
        if row.token in asked and row.run_id != asked[row.token]:
            yield f"{row.token} ran as {row.run_id}, wanted {asked[row.token]}"


def doubled(seen: Evidence) -> Iterator[str]:
    """An event with more than one run."""
    runs = Counter(row.token for row in seen.runs)
    yield from (f"{token} ran {count} times" for token, count in runs.items() if count > 1)


def leaked(seen: Evidence) -> Iterator[str]:
    """A run of what was refused at the door, by the condition, or as poison."""
    forbidden = {one.token for one in seen.expected if one.kind in ("filtered", "poison")} | seen.refused
    yield from (row.token for row in seen.runs if row.token in forbidden)


def dlq_missing(seen: Evidence) -> Iterator[str]:
    """Poison that was accepted and is not in the dead-letter topic."""
    dead = {letter.token for letter in seen.dead}
    for one in seen.expected:
        if one.kind == "poison" and one.token in seen.accepted and one.token not in dead:
            yield one.token


def dlq_unexpected(seen: Evidence) -> Iterator[str]:
    """A dead letter of something that is not poison."""
    poison = {one.token for one in seen.expected if one.kind in DEADLY}
    for letter in seen.dead:
        if letter.token not in poison:
            yield f"{letter.token} at {letter.origin}: {letter.reason}"


def dlq_bytes(seen: Evidence) -> Iterator[str]:
    """A dead letter that is not, byte for byte, the record it says it is."""
    for letter in seen.dead:
        if letter.origin is None or seen.originals.get(letter.origin) != letter.sha:
            yield f"{letter.token} at {letter.origin}"


def dlq_doubled(seen: Evidence) -> Iterator[str]:
    """The same record dead-lettered twice, although nothing was killed."""
    if seen.once_each:
        counts = Counter((letter.origin, letter.stage) for letter in seen.dead)
        yield from (f"{origin} {count} times" for (origin, _), count in counts.items() if count > 1)


def offsets_back(seen: Evidence) -> Iterator[str]:
    """A committed offset that went back."""
    last: dict[tuple[str, str, int], int] = defaultdict(lambda: -1)
    for sample in sorted(seen.offsets, key=lambda sample: sample.at_ns):
        place = (sample.group, sample.topic, sample.partition)
        if sample.offset < last[place]:
            yield f"{place}: {last[place]} then {sample.offset}"
        last[place] = max(last[place], sample.offset)


def offsets_ahead(seen: Evidence) -> Iterator[str]:
    """The runner committed a record before the engine had answered for it or it was dead-lettered."""
    first: dict[str, int] = {}
    for run_id, at_ns in seen.attempts:
        first[run_id] = min(at_ns, first.get(run_id, at_ns))
    dead = {letter.origin for letter in seen.dead}
    committed = _commits_by_partition(seen)
    for record in seen.matched:
        if (seen.matched_topic, record.partition, record.offset) in dead:
            continue
        offsets, times = committed.get(record.partition, ([], []))
        after = bisect_right(offsets, record.offset)
        if after == len(offsets):
            continue
        if first.get(record.run_id, times[after] + 1) > times[after]:
            yield f"{seen.matched_topic}/{record.partition}@{record.offset}: run {record.run_id} was not started"


def _commits_by_partition(seen: Evidence) -> dict[int, tuple[list[int], list[int]]]:
    """The runner's commits: growing offsets, and when each was first seen."""
    by_partition: dict[int, tuple[list[int], list[int]]] = {}
    for sample in sorted(seen.offsets, key=lambda sample: sample.at_ns):
        if (sample.group, sample.topic) == (seen.runner_group, seen.matched_topic):
            offsets, times = by_partition.setdefault(sample.partition, ([], []))
            if not offsets or sample.offset > offsets[-1]:
                offsets.append(sample.offset)
                times.append(sample.at_ns)
    return by_partition


def cursor_ahead(seen: Evidence) -> Iterator[str]:
    """A cursor that was saved before everything up to it was in Kafka."""
    for cursor in seen.cursors:
        for item in seen.served:
            if item.source == cursor.source and item.position <= cursor.position:
                late = item.appended_ms is None or item.appended_ms > cursor.at_ms
                if late:
                    yield f"{cursor.source}: cursor {cursor.position}, item {item.position} not yet in Kafka"


RULES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "lost": lost,
    "phantom": phantom,
    "misnamed": misnamed,
    "doubled": doubled,
    "leaked": leaked,
    "dlq missing": dlq_missing,
    "dlq unexpected": dlq_unexpected,
    "dlq bytes": dlq_bytes,
    "dlq doubled": dlq_doubled,
    "offsets back": offsets_back,
    "offsets ahead": offsets_ahead,
    "cursor ahead": cursor_ahead,
}

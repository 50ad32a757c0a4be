"""What is known at the end of a run, as plain values: what was promised, and what the observers saw."""

from __future__ import annotations

from dataclasses import dataclass, field

Coordinates = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(frozen=True)
class Expected:
    """One identity that was sent at least once."""

    token: str
    kind: str
    """What every sighting of it must come to: `new` a run, `filtered` a decision that says so, `poison` a dead
    letter, `healed` a run, though it may have been a dead letter before."""
    run_id: str


@dataclass(frozen=True)
class RunRow:
    run_id: str
    token: str
    at_ns: int = 0


@dataclass(frozen=True)
class DeadLetter:
    """A record of the dead-letter topic, with where it says it comes from."""

    token: str | None
    origin: Coordinates | None
    sha: str
    stage: str = ""
    reason: str = ""


@dataclass(frozen=True)
class OffsetSample:
    """A committed offset at a moment."""

    at_ns: int
    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class CursorSeen:
    """A cursor record of the cursors topic."""

    at_ms: int
    source: str
    position: int


@dataclass(frozen=True)
class Served:
    """An item of a fake provider, or a cron slot: when its record was appended to raw, if it was."""

    source: str
    position: int
    appended_ms: int | None


@dataclass(frozen=True)
class Matched:
    """A record that waits for the runner, and the run it asks for."""

    partition: int
    offset: int
    run_id: str


@dataclass(frozen=True)
class Evidence:
    """Everything the checker judges. Tokens name identities; a duplicate has the token of its origin."""

    expected: tuple[Expected, ...] = ()
    accepted: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()
    runs: tuple[RunRow, ...] = ()
    attempts: tuple[tuple[str, int], ...] = ()
    """(run id, monotonic ns) of each request the engine saw."""
    filtered: frozenset[str] = frozenset()
    dead: tuple[DeadLetter, ...] = ()
    originals: dict[Coordinates, str] = field(default_factory=dict)
    """sha of the value of each record an observer read."""
    offsets: tuple[OffsetSample, ...] = ()
    cursors: tuple[CursorSeen, ...] = ()
    served: tuple[Served, ...] = ()
    matched: tuple[Matched, ...] = ()
    runner_group: str = ""
    matched_topic: str = ""
    once_each: bool = False
    """Nothing was killed: a dead letter must not appear twice either."""

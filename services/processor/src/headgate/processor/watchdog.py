"""Nothing stalls silently: progress is judged by what the broker has as committed, not by what we believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """One look at the world."""

    positions: Mapping[tuple[str, int], tuple[int, int]]
    """By (topic, partition) of ours: the next offset to read that is committed, and the topic's end."""
    busy: str = ""
    """What keeps us from having partitions at all: rebalancing, recovering; empty when we have them."""
    busy_progress: int = 0
    """Grows while that goes on well."""
    excused: bool = False
    """Something outside is known to hold us up and is waited for: not ready, but no reason to die."""


@dataclass
class Watchdog:
    """`look` each second; it answers with what is wrong, and whether that has lasted too long to live."""

    stall_seconds: float
    exit_seconds: float
    _moved: dict[object, tuple[int, float]] = field(default_factory=dict)

    def look(self, seen: Seen, now: float) -> tuple[list[str], bool]:
        """The stalls to report, and whether to exit because of them."""
        current: dict[object, tuple[int, float]] = {}
        found: list[tuple[float, str]] = []
        for (topic, partition), (done, end) in seen.positions.items():
            since = self._since((topic, partition), done, now, current)
            if end > done:
                found.append(
                    (
                        now - since,
                        f"{topic}/{partition} has been at offset {done} of {end} for {now - since:.0f} s",
                    )
                )
            else:
                current[topic, partition] = (done, now)
        if seen.busy:
            since = self._since(seen.busy, seen.busy_progress, now, current)
            found.append((now - since, f"{seen.busy} for {now - since:.0f} s without progress"))
        self._moved = current
        stalls = [text for age, text in found if age >= self.stall_seconds]
        exit_now = not seen.excused and any(age >= self.exit_seconds for age, _ in found)
        return stalls, exit_now

    def _since(self, what: object, mark: int, now: float, current: dict[object, tuple[int, float]]) -> float:
        before = self._moved.get(what)
        since = before[1] if before is not None and before[0] == mark else now
        current[what] = (mark, since)
        return since

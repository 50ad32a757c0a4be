"""Counting: what is in flight, how fast a source sends, what was seen a moment ago. No I/O, no clock."""

from dataclasses import dataclass


@dataclass(slots=True)
class InFlight:
    """Deliveries and bytes we hold at once. Full means 503 now, not a longer queue."""

    most: int
    most_bytes: int
    count: int = 0
    size: int = 0

    def enter(self, size: int) -> bool:
        if self.count >= self.most or (self.size + size > self.most_bytes and self.count):
            return False
        self.count += 1
        self.size += size
        return True

    def grow(self, size: int) -> bool:
        """More of a body that was let in. Counted as it comes: a body that is only announced costs nothing, and
        a few that are announced and hardly sent would keep everybody else out."""
        if self.size + size > self.most_bytes and self.count > 1:
            return False
        self.size += size
        return True

    def leave(self, size: int) -> None:
        self.count -= 1
        self.size -= size


class Bucket:
    """A token bucket that holds two seconds' worth."""

    __slots__ = ("_level", "_rate", "_then")

    def __init__(self, rate_per_second: float, now: float) -> None:
        self._rate = rate_per_second
        self._level = max(1.0, 2 * rate_per_second)
        self._then = now

    def take(self, now: float) -> float:
        """Seconds to wait before trying again; 0.0 means taken."""
        level = min(max(1.0, 2 * self._rate), self._level + (now - self._then) * self._rate)
        self._then = now
        if level < 1.0:
            self._level = level
            return (1.0 - level) / self._rate
        self._level = level - 1.0
        return 0.0


class Recent:
    """The last fingerprints that were acked here. A hint for the sender, never a reason to drop.

    Two generations: when the new one is full the old one is forgotten. (Taking the oldest key out of a dict
    each time walks over the places of all that were taken out before.)
    """

    def __init__(self, most: int = 20_000) -> None:
        self._half = most // 2
        self._new: set[str] = set()
        self._old: set[str] = set()

    def add(self, fingerprint: str) -> bool:
        """Whether it was there already."""
        new = self._new
        if fingerprint in new or fingerprint in self._old:
            return True
        new.add(fingerprint)
        if len(new) >= self._half:
            self._old, self._new = new, set()
        return False

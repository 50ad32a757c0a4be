"""How far a partition may be committed. Records finish in any order; a commit says "everything before".

So the mark stands at the first record that is not finished, however many behind it are. A crash then
reads a few finished ones again, which the run id collapses, and never skips one.
"""

from __future__ import annotations

from collections import deque


class LowWater:
    """The offsets of one partition between the committed mark and the newest one taken."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        """Taken in order; the head is the first unfinished one."""
        self._finished: set[int] = set()
        """Finished, with an unfinished one before them."""
        self._next: int | None = None
        """One past the newest offset taken."""

    def take(self, offset: int) -> bool:
        """Note that `offset` is in hand. False: it was taken before, and must not be handled twice."""
        if self._next is not None and offset < self._next:
            return False
        self._open.append(offset)
        self._next = offset + 1
        return True

    def finish(self, offset: int) -> None:
        """Note that `offset` needs nothing any more."""
        self._finished.add(offset)
        while self._open and self._open[0] in self._finished:
            self._finished.remove(self._open.popleft())

    @property
    def mark(self) -> int | None:
        """The offset to commit: the first one that a restart has to read. None: nothing was taken yet."""
        return self._open[0] if self._open else self._next

    @property
    def span(self) -> int:
        """How many offsets are remembered, finished or not: what a stuck record costs."""
        return len(self._open)

"""Deliveries that wait for Kafka: each is settled once, by its last acknowledgement, its first error, or its deadline."""

import asyncio
from collections.abc import Callable
from time import monotonic

TICK_SECONDS = 0.02


class Waiting:
    """One delivery's records on their way."""

    __slots__ = ("_deadlines", "_left", "_settled", "_slot")

    def __init__(
        self, records: int, settled: Callable[[Exception | None], None], deadlines: "Deadlines", due: float
    ) -> None:
        self._left = records
        self._settled: Callable[[Exception | None], None] | None = settled
        self._deadlines = deadlines
        self._slot = deadlines.add(self, due)

    def told(self, error: Exception | None, _: object = None) -> None:
        """Kafka's word on one of the records. What it says after the delivery was settled changes nothing."""
        self._left -= 1
        if error is not None or not self._left:
            self.end(error)

    def end(self, error: Exception | None) -> None:
        settled = self.abandon()
        if settled is not None:
            settled(error)

    def abandon(self) -> Callable[[Exception | None], None] | None:
        """Settle it without a word: the caller answers. None where it was settled before."""
        settled, self._settled = self._settled, None
        if settled is not None:
            self._deadlines.remove(self, self._slot)
        return settled


class Deadlines:
    """One timer for all that wait. A timer of the event loop for each costs several times as much as the two
    set operations that nearly every delivery gets by with. Late by a tick at most."""

    def __init__(self) -> None:
        self._slots: dict[int, set[Waiting]] = {}
        self._ticking = False

    def add(self, one: Waiting, due: float) -> int:
        """Ends `one` with a TimeoutError when the monotonic clock shows `due`."""
        slot = int(due / TICK_SECONDS) + 1
        ones = self._slots.get(slot)
        if ones is None:
            ones = self._slots[slot] = set()
            if not self._ticking:
                self._ticking = True
                asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        ones.add(one)
        return slot

    def remove(self, one: Waiting, slot: int) -> None:
        ones = self._slots.get(slot)
        if ones is not None:
            ones.discard(one)
            if not ones:
                del self._slots[slot]

    def _tick(self) -> None:
        now = int(monotonic() / TICK_SECONDS)
        for slot in sorted(slot for slot in self._slots if slot <= now):
            for one in self._slots.pop(slot):
                one.end(TimeoutError())
        self._ticking = bool(self._slots)
        if self._ticking:
            asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

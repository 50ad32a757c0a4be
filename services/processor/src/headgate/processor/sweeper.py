"""Forget fingerprints whose window has passed, a bounded step at a time, by tombstones in the changelog.

"Now" is the newest broker time seen on the partition, so that no clock of ours ends a window early. A
partition without new events is not swept: it does not grow either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headgate.processor import metrics
from headgate.processor.sightings import newest_millis

STEP = 500
"""Entries looked at in one step."""


class Swept(Protocol):
    """What the sweeper needs of the table."""

    def owned(self) -> list[int]: ...

    def scan(self, partition: int, after: bytes, limit: int) -> list[tuple[bytes, bytes]]: ...

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None: ...


@dataclass
class Sweeper:
    """Goes round the partitions; where it is in each is kept only in memory."""

    table: Swept
    newest: dict[int, int] = field(default_factory=dict)
    """Newest broker time in ms seen, by partition."""
    _after: dict[int, bytes] = field(default_factory=dict)

    def saw(self, partition: int, millis: int) -> None:
        if millis > self.newest.get(partition, 0):
            self.newest[partition] = millis

    def step(self, partition: int, window_millis: int) -> list[bytes]:
        """Stage the deletion of what is over among the next entries; the caller sends the tombstones."""
        now = self.newest.get(partition)
        if now is None:
            return []
        entries = self.table.scan(partition, self._after.get(partition, b""), STEP)
        self._after[partition] = entries[-1][0] if len(entries) == STEP else b""
        over = [key for key, value in entries if newest_millis(value) < now - window_millis]
        for key in over:
            self.table.stage(partition, key, None)
        metrics.SWEPT.inc(len(over))
        return over

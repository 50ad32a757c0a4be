"""Which offsets may be committed: up to the last of the finished batches that have no gap before them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

P = TypeVar("P")
"""What names a partition: Faust's TP here, anything hashable in a test."""


class Batch(Generic[P]):
    """What one fetch brought of one partition: the value that the agent receives.

    Nothing but `finish` makes it committable. Faust acks an event however its loop body was left, by an
    exception or by being cancelled too; such a batch stays unfinished, and is read again.
    """

    __slots__ = ("_on_finish", "finished", "last_offset", "partition", "records", "size")

    def __init__(self, partition: P, records: Sequence[Any], last_offset: int) -> None:
        self.partition = partition
        self.records = records
        self.size = len(records)
        self.last_offset = last_offset
        self.finished = False
        self._on_finish: Callable[[Batch[P]], None] | None = None

    def finish(self) -> None:
        """Call once everything that this batch caused is stored on the broker."""
        self.finished = True
        self.records = ()
        on_finish, self._on_finish = self._on_finish, None
        if on_finish is not None:
            on_finish(self)


class Ledger(Generic[P]):
    """The batches handed out and not yet committed, in the order of their offsets, by partition."""

    def __init__(self, on_finish: Callable[[], None] = lambda: None) -> None:
        self._batches: dict[P, deque[Batch[P]]] = {}
        self._on_finish = on_finish
        self.unfinished = 0
        """Batches that somebody works on or has not begun with."""
        self.unfinished_records = 0

    def add(self, batch: Batch[P]) -> None:
        batch._on_finish = self._finished
        self._batches.setdefault(batch.partition, deque()).append(batch)
        self.unfinished += 1
        self.unfinished_records += batch.size

    def partitions(self) -> list[P]:
        return list(self._batches)

    def together(self, first: Batch[P], most_records: int) -> list[Batch[P]]:
        """What may be worked on in one go with `first`: the oldest unfinished batches of each partition, while
        there are not more records than that. `first` alone when it is not in the ledger any more."""
        found, records = [first], first.size
        if first not in self._batches.get(first.partition, ()):
            return found
        for waiting in self._batches.values():
            for batch in waiting:
                if batch.finished or batch is first:
                    continue
                records += batch.size
                if records > most_records:
                    return found
                found.append(batch)
        return found

    def committable(self, partition: P) -> int | None:
        """The next offset to read after the finished prefix, and forget that prefix. None: nothing new."""
        waiting = self._batches.get(partition)
        offset = None
        while waiting and waiting[0].finished:
            offset = waiting.popleft().last_offset + 1
        return offset

    def forget(self, partition: P) -> None:
        """The partition is not ours any more, or is read anew: late finishes of its batches mean nothing."""
        for batch in self._batches.pop(partition, ()):
            if not batch.finished:
                batch._on_finish = None
                self._leaves(batch)
        self._on_finish()

    def clear(self) -> None:
        for partition in self.partitions():
            self.forget(partition)

    def _finished(self, batch: Batch[P]) -> None:
        self._leaves(batch)
        self._on_finish()

    def _leaves(self, batch: Batch[P]) -> None:
        self.unfinished -= 1
        self.unfinished_records -= batch.size

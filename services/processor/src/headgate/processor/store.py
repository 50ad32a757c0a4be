"""The fingerprint table's storage, behind Faust's own Table: Faust recovers it from the changelog and tells
which partitions are ours; the processor reads and writes it here, a batch at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import structlog
from faust.stores import STORES
from faust.stores.base import Store
from faust.types import TP

from headgate.processor.batching.ledger import Batch
from headgate.processor.partitions import Change, MemoryPartition, Partition, found_corrupt, open_rocks

log = structlog.get_logger(__name__)

SCHEME = "headgate+fingerprints"


class Storage:
    """What a store is made of that Faust cannot hand it: where, how, and whom to tell when it breaks."""

    def __init__(
        self,
        *,
        directory: Path | None,
        incarnation: str,
        end_offsets: Callable[[list[int]], dict[int, int]],
        crash: Callable[[BaseException], None],
    ) -> None:
        self.directory = directory
        """Where the partitions lie; None keeps them in memory."""
        self.incarnation = incarnation
        """The changelog topic's id: another topic of the same name has another."""
        self.end_offsets = end_offsets
        """Asks the broker for the next offset of each changelog partition. Blocking."""
        self.crash = crash
        """Ends the process. Faust swallows what recovery raises, so raising is not enough."""


class FingerprintStore(Store[bytes, bytes]):
    """Partitions by number. Everything written is staged until the batch it belongs to is stored on the
    broker; `commit` then makes it the table's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._storage: Storage = (self.options or {})["storage"]
        self._partitions: dict[int, Partition] = {}
        self._staged: dict[int, dict[bytes, bytes | None]] = {}

    # -- the processor's side ---------------------------------------------------------------------------

    def fetch(self, partition: int, key: bytes) -> bytes | None:
        staged = self._staged.get(partition)
        if staged is not None and key in staged:
            return staged[key]
        return self._partitions[partition].get(key)

    def stage(self, partition: int, key: bytes, value: bytes | None) -> None:
        self._staged.setdefault(partition, {})[key] = value

    def commit(self, partition: int) -> None:
        """What was staged has reached the changelog: make it the table's."""
        staged = self._staged.pop(partition, None)
        if staged:
            own = self._partitions[partition]
            before = own.offset
            # The changelog grew by at least as many records as were staged. Counting is enough: too low
            # an offset makes recovery read a little twice.
            own.apply(staged.items(), (-1 if before is None else before) + len(staged))

    def discard(self) -> None:
        """Forget what was staged: its batch was given up and will be read again."""
        self._staged.clear()

    def owned(self) -> list[int]:
        return sorted(self._partitions)

    def scan(self, partition: int, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._partitions[partition].scan(after, limit)

    def size(self) -> int:
        return sum(partition.count() for partition in self._partitions.values())

    def offsets(self) -> list[int]:
        """How far each partition is: their sum grows while recovery goes on."""
        return [partition.offset or 0 for partition in self._partitions.values()]

    # -- Faust's side -----------------------------------------------------------------------------------

    def persisted_offset(self, tp: TP) -> int | None:
        partition = self._partitions.get(tp.partition)
        return None if partition is None else partition.offset

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Open what is ours now, close what is not any more."""
        mine = {tp.partition for tp in assigned if tp.topic == self._changelog()}
        self._staged.clear()
        try:
            for number in set(self._partitions) - mine:
                await asyncio.to_thread(self._partitions.pop(number).close)
            new = sorted(mine - set(self._partitions))
            if new:
                self._partitions.update(await asyncio.to_thread(self._open, new))
        except Exception as problem:
            self._storage.crash(problem)

    def _changelog(self) -> str:
        name: str = self.table.changelog_topic.get_topic_name()
        return name

    def _open(self, numbers: list[int]) -> dict[int, Partition]:
        directory = self._storage.directory
        if directory is None:
            return {number: MemoryPartition() for number in numbers}
        ends = self._storage.end_offsets(numbers)
        suspect = found_corrupt(directory)
        opened: dict[int, Partition] = {}
        for number in numbers:
            opened[number], why = open_rocks(
                directory / str(number), self._storage.incarnation, ends[number], suspect=suspect
            )
            if why:
                log.warning(
                    "Local state was thrown away and is rebuilt from the changelog.",
                    partition=number,
                    reason=why,
                )
        return opened

    def apply_changelog_batch(
        self, batch: Iterable[Any], to_key: Callable[[Any], Any], to_value: Callable[[Any], Any]
    ) -> None:
        """Recovery and standby: records as the changelog has them, in order."""
        try:
            for event in batch:
                read: Batch[TP] = event.value
                changes: list[Change] = [(record.key, record.value) for record in read.records if record.key]
                self._partitions[read.partition.partition].apply(changes, read.last_offset)
        except Exception as problem:
            self._storage.crash(problem)

    def reset_state(self) -> None:
        """Faust asks for it never on its own; a wipe happens when a partition is opened."""

    async def backup_partition(
        self, tp: TP | int, flush: bool = True, purge: bool = False, keep: int = 1
    ) -> None:
        """Nothing to do: the changelog is the backup."""

    def restore_backup(self, tp: TP | int, latest: bool = True, backup_id: int = 0) -> None:
        """Nothing to do: recovery is the restore."""

    async def on_stop(self) -> None:
        partitions, self._partitions = self._partitions, {}
        for partition in partitions.values():
            await asyncio.to_thread(partition.close)


def register() -> None:
    """Make the scheme known to Faust."""
    STORES.aliases[SCHEME] = f"{FingerprintStore.__module__}:{FingerprintStore.__qualname__}"

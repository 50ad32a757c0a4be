"""One partition's share of the fingerprint table: in memory, or in RocksDB beside the process.

Both hold raw bytes by fingerprint, and up to which changelog offset they are complete. Changes arrive in
batches that carry that offset, so that a crash leaves an older state, never a torn one.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Protocol

import rocksdict

from headgate.common.errors import HeadgateError

Change = tuple[bytes, bytes | None]
"""A fingerprint and its new value; None deletes it."""

_META = b"\x00headgate"
"""Sorts before, and is never, a fingerprint."""
_OFFSET = struct.Struct(">q")
_REBUILD = "REBUILD"
_MEMORY_BYTES = 24 * 1024 * 1024
"""Of all partitions together: blocks read, indexes and filters, and what is not written to disk yet."""
_UNWRITTEN_BYTES = 12 * 1024 * 1024
_WRITE_BUFFER_BYTES = 4 * 1024 * 1024


class StateBroken(HeadgateError):
    """The local state cannot be read or written. The process ends; what is wrong is rebuilt or said."""


class Partition(Protocol):
    """What the store needs of one partition."""

    def get(self, key: bytes) -> bytes | None: ...

    def apply(self, changes: Iterable[Change], offset: int | None) -> None:
        """All changes at once. `offset`: the table then holds the changelog up to and including it."""

    @property
    def offset(self) -> int | None:
        """The last changelog offset applied; None when that is not known and everything must be read."""

    def scan(self, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The next entries in the order of their keys."""

    def count(self) -> int:
        """How many entries there are, about."""

    def close(self) -> None: ...


class MemoryPartition:
    """A dict. Recovered from the changelog at each start."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._offset: int | None = None
        self._ahead: Iterator[bytes] = iter(())

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def apply(self, changes: Iterable[Change], offset: int | None) -> None:
        for key, value in changes:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        if offset is not None:
            self._offset = offset

    @property
    def offset(self) -> int | None:
        return self._offset

    def scan(self, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """In the order in which a snapshot of the keys was taken: a dict has no order of keys to seek in."""
        if not after:
            self._ahead = iter(list(self._values))
        found = []
        for key in self._ahead:
            value = self._values.get(key)
            if value is not None:
                found.append((key, value))
            if len(found) >= limit:
                break
        return found

    def count(self) -> int:
        return len(self._values)

    def close(self) -> None:
        self._values.clear()


class RocksPartition:
    """A RocksDB directory. Without a write-ahead log: the changelog is one already, and what a crash takes
    from memory is read from there again."""

    def __init__(self, path: Path, incarnation: str) -> None:
        self._path = path
        self._incarnation = incarnation.encode()
        path.mkdir(parents=True, exist_ok=True)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
        options.set_max_write_buffer_number(2)
        options.set_write_buffer_manager(_shared().unwritten)
        options.set_max_background_jobs(1)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1024 * 1024)
        options.set_max_open_files(64)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_paranoid_checks(True)
        table = rocksdict.BlockBasedOptions()
        table.set_bloom_filter(10, False)
        table.set_block_cache(_shared().cache)
        table.set_cache_index_and_filter_blocks(True)
        options.set_block_based_table_factory(table)
        self._writing = rocksdict.WriteOptions()
        self._writing.disable_wal = True  # type: ignore[assignment, method-assign]  # its stub says method
        self._db = rocksdict.Rdict(str(path), options)
        meta = self._db.get(_META)
        self._offset: int | None = None
        self._other = False
        if meta is not None:
            self._other = bytes(meta[_OFFSET.size :]) != self._incarnation
            self._offset = None if self._other else _OFFSET.unpack_from(meta)[0]

    @property
    def of_another_topic(self) -> bool:
        """Whether it was filled from a changelog of the same name that has been deleted since."""
        return self._other

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as problem:
            raise self._broken("read", problem) from problem
        return value

    def apply(self, changes: Iterable[Change], offset: int | None) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if offset is not None:
            batch.put(_META, _OFFSET.pack(offset) + self._incarnation)
        try:
            self._db.write(batch, self._writing)
        except Exception as problem:
            raise self._broken("write", problem) from problem
        if offset is not None:
            self._offset = offset

    @property
    def offset(self) -> int | None:
        return self._offset

    def scan(self, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        try:
            return list(islice(self._entries((after or _META) + b"\x00"), limit))
        except Exception as problem:
            raise self._broken("read", problem) from problem

    def _entries(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The library's own loop ends at a block that cannot be read, as if it were the last."""
        cursor = self._db.iter()
        cursor.seek(first)
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
        cursor.status()

    def count(self) -> int:
        return max(0, int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0) - 1)

    def read_through(self) -> None:
        """Every block once: what is corrupt is found now, and not one read and one restart at a time."""
        for _ in self._entries(_META):
            pass

    def close(self) -> None:
        """Write what is in memory, so that the next start reads little of the changelog."""
        self._db.flush()
        self.abandon()

    def abandon(self) -> None:
        self._db.close()

    def _broken(self, verb: str, problem: Exception) -> StateBroken:
        if "orruption" in str(problem):
            (self._path / _REBUILD).touch()
        return StateBroken(f"could not {verb} the local state in {self._path}: {problem}")


def found_corrupt(directory: Path) -> bool:
    """Whether a partition in it was: what harmed that one may have harmed its neighbours."""
    return any(directory.glob(f"*/{_REBUILD}"))


def open_rocks(
    path: Path, incarnation: str, end_offset: int, *, suspect: bool = False
) -> tuple[RocksPartition, str]:
    """The partition at `path`, wiped first when it cannot be true; and why it was, or "".

    It cannot be true when it does not open, was found corrupt, was filled from another topic of this
    name, or is ahead of the topic (whose next offset is `end_offset`). A suspect one is read through first.
    """
    why = "it was found corrupt" if (path / _REBUILD).exists() else ""
    if not why:
        try:
            partition = RocksPartition(path, incarnation)
        except Exception as problem:
            if "/LOCK" in str(problem):
                raise StateBroken(
                    f"another process holds the local state in {path}: give each processor its own "
                    "HEADGATE_STATE_DIR"
                ) from problem
            why = f"it does not open ({problem})"
        else:
            why = _untrue(partition, end_offset, suspect)
            if not why:
                return partition, ""
            partition.abandon()
    shutil.rmtree(path, ignore_errors=True)
    return RocksPartition(path, incarnation), why


def _untrue(partition: RocksPartition, end_offset: int, suspect: bool) -> str:
    if partition.of_another_topic:
        return "it belongs to a changelog that does not exist any more"
    if (partition.offset or 0) >= max(end_offset, 1):
        return f"it is ahead of the changelog ({partition.offset} of {end_offset})"
    if suspect:
        try:
            partition.read_through()
        except Exception as problem:
            return f"it is corrupt, as its neighbour was ({problem})"
    return ""


def memory_bytes() -> int:
    """What RocksDB holds in memory for all partitions of this process; near, but not above, its bound."""
    return _shared().cache.get_usage()


class _Shared:
    """Without a common bound each partition would keep write buffers of its own: memory by their number."""

    def __init__(self) -> None:
        self.cache = rocksdict.Cache(_MEMORY_BYTES)
        self.unwritten = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            _UNWRITTEN_BYTES, False, self.cache
        )


@cache
def _shared() -> _Shared:
    return _Shared()

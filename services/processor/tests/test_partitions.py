"""A partition's storage: both kinds agree, its memory is bounded, and what is corrupt is found at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.common.testing.waiting import wait_until
from headgate.processor import partitions
from headgate.processor.partitions import (
    MemoryPartition,
    RocksPartition,
    StateBroken,
    found_corrupt,
    open_rocks,
)

MANY = 24
BATCH = 500
BATCHES = 30
VALUE = 100
UNWRITTEN_BYTES = 16 * 1024 * 1024


def test_many_partitions_share_one_bound_of_memory_and_lose_nothing(tmp_path: Path) -> None:
    opened = [RocksPartition(tmp_path / str(number), "topic") for number in range(MANY)]
    last: dict[int, tuple[bytes, bytes]] = {}
    for offset in range(BATCHES):
        for number, one in enumerate(opened):
            changes = [(os.urandom(32), os.urandom(VALUE)) for _ in range(BATCH)]
            one.apply(changes, offset)
            last[number] = changes[0]

    def unwritten() -> int:
        return sum(int(one._db.property_int_value("rocksdb.cur-size-all-mem-tables") or 0) for one in opened)

    # Writing to disk runs behind a burst for a moment.
    wait_until(lambda: unwritten() < UNWRITTEN_BYTES)
    assert partitions.memory_bytes() >= unwritten()
    for number, one in enumerate(opened):
        key, value = last[number]
        assert one.get(key) == value
        assert one.offset == BATCHES - 1
        one.close()


def test_both_kinds_of_partition_give_the_same_answers(tmp_path: Path) -> None:
    memory, rocks = MemoryPartition(), RocksPartition(tmp_path / "p", "topic-1")
    for partition in (memory, rocks):
        assert partition.offset is None
        partition.apply([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], 2)
        partition.apply([(b"b", None), (b"a", b"4")], 4)
        assert partition.get(b"a") == b"4"
        assert partition.get(b"b") is None
        assert partition.offset == 4
        assert partition.scan(b"", 10) == [(b"a", b"4"), (b"c", b"3")]
    rocks.close()
    again = RocksPartition(tmp_path / "p", "topic-1")
    assert (again.offset, again.get(b"c")) == (4, b"3")
    again.close()
    other = RocksPartition(tmp_path / "p", "topic-2")
    assert other.of_another_topic
    other.close()


def damage(path: Path) -> None:
    """A few bytes in the middle: its table opens, and a read of that block fails."""
    (table,) = path.glob("*.sst")
    content = bytearray(table.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 16] = bytes(byte ^ 0xFF for byte in content[middle : middle + 16])
    table.write_bytes(content)


def test_partitions_corrupted_together_are_found_together(tmp_path: Path) -> None:
    """Or each would cost a restart of its own, when a record comes that needs it."""
    for number in range(3):
        partition = RocksPartition(tmp_path / str(number), "topic")
        partition.apply([(os.urandom(32), os.urandom(VALUE)) for _ in range(BATCH)], BATCH - 1)
        partition.close()
    damage(tmp_path / "0")
    damage(tmp_path / "2")
    first, why = open_rocks(tmp_path / "0", "topic", BATCH)
    assert why == ""
    with pytest.raises(StateBroken):
        first.scan(b"", BATCH)
    first.abandon()
    assert found_corrupt(tmp_path)
    reasons = []
    for number in range(3):
        partition, why = open_rocks(tmp_path / str(number), "topic", BATCH, suspect=True)
        assert partition.offset == (None if why else BATCH - 1)
        partition.close()
        reasons.append(why)
    assert reasons[:2] == ["it was found corrupt", ""]
    assert "as its neighbour was" in reasons[2]
    assert not found_corrupt(tmp_path)

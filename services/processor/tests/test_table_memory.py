"""What the table has in memory and not on disk is bounded for all partitions together."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.common.testing.waiting import wait_until
from headgate.processor import partitions
from headgate.processor.partitions import RocksPartition

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

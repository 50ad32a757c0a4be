"""The table outlives whatever happens to it: workers that come and go, and local state that lies."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate.processor.partitions import RocksPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


def until_all_decided(world: Any, count: int, **start: str) -> list[dict[str, Any]]:
    """Run it as a supervisor does: one that ends by itself is started again."""
    running = world.start(**start)

    def decided() -> bool:
        nonlocal running
        if running.process.poll() is not None:
            assert running.process.returncode == 1, running.log.read_text()
            running = world.start(**start)
        return bool(world._written(world.topics.decisions) >= count)

    world.wait_until(f"there are {count} decisions", decided)
    assert running.wait_ready().stop() == 0
    found: list[dict[str, Any]] = world.decisions()
    return found


def partitions(world: Any) -> list[Path]:
    return sorted((world.directory / "state/processor" / world.topics.prefix / "0/fingerprints").iterdir())


def delete(world: Any) -> None:
    for path in partitions(world):
        shutil.rmtree(path)


def corrupt(world: Any) -> None:
    tables = [table for path in partitions(world) for table in path.glob("*.sst")]
    assert tables
    for table in tables:
        broken = bytearray(table.read_bytes())
        broken[: len(broken) // 2] = bytes(byte ^ 0xFF for byte in broken[: len(broken) // 2])
        table.write_bytes(broken)


def truncate_manifest(world: Any) -> None:
    for path in partitions(world):
        for manifest in path.glob("MANIFEST-*"):
            manifest.write_bytes(b"\x00\x01")


def run_ahead(world: Any) -> None:
    """A checkpoint of records that the topic has lost, and entries that nobody else has."""
    for path in partitions(world):
        meta: Any = RocksPartition(path, "")._db.get(b"\x00headgate")
        partition = RocksPartition(path, meta[8:].decode())
        partition.apply([(b"github/gh:ghost", b"\x01")], 1_000_000)
        partition.close()


@pytest.mark.parametrize("damage", [delete, corrupt, truncate_manifest, run_ahead])
def test_local_state_that_cannot_be_true_is_rebuilt_and_decides_as_before(world: Any, damage: Any) -> None:
    world.trigger("t")
    events = [world.event(f"a{number}") for number in range(30)]
    world.publish(*events)
    until_all_decided(world, 30)
    damage(world)
    world.publish(*events)
    decisions = until_all_decided(world, 60)
    outcomes = Counter((one["fingerprint"], one["verdicts"][0]["outcome"]) for one in decisions)
    assert all(outcomes[event["fingerprint"], "started"] == 1 for event in events)
    assert all(outcomes[event["fingerprint"], "duplicate"] == 1 for event in events)


@pytest.mark.parametrize("store", ["rocksdb", "memory"])
def test_workers_that_come_and_die_lose_nothing_and_double_no_run(world: Any, store: str) -> None:
    world.trigger("t")
    env = {"PROCESSOR__STORE": store, "PROCESSOR__BATCH_RECORDS": "20"}
    first = world.start(state="one", **env).wait_ready()
    events = [world.event(f"e{number}") for number in range(600)]
    world.publish(*events[:200])
    second = world.start(state="two", **env)
    world.publish(*events[200:400])
    second.wait_ready()
    first.kill()
    world.publish(*events[400:])
    third = world.start(state="one", **env)
    world.publish(*events[:300])
    fingerprints = {event["fingerprint"] for event in events}
    world.wait_until(
        "every event has its run",
        lambda: {one["event"]["fingerprint"] for one in world.matched()} >= fingerprints,
    )
    world.wait_decisions(900)
    runs: dict[str, set[str]] = {}
    for one in world.matched():
        runs.setdefault(one["event"]["fingerprint"], set()).add(one["run_id"])
    assert all(len(ids) == 1 for ids in runs.values())
    assert third.wait_ready().stop() == 0
    assert second.wait_ready().stop() == 0


def test_a_graceful_restart_repeats_nothing(world: Any) -> None:
    world.trigger("t")
    world.publish(*[world.event(f"a{number}") for number in range(100)])
    until_all_decided(world, 100)
    world.publish(*[world.event(f"b{number}") for number in range(100)])
    decisions = until_all_decided(world, 200)
    assert len(decisions) == 200
    assert len(world.matched()) == 200

"""Cron on a real broker: killed anywhere, each slot comes; taken over, each slot comes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.common.testing.cluster import Stack
from headgate.common.testing.services import Child, Outside, eventually, replicas

pytestmark = pytest.mark.kafka


def ticking(name: str = "ticks", every: str = "1s", **config: Any) -> dict[str, Any]:
    return {
        "apiVersion": "headgate/v1",
        "kind": "Source",
        "metadata": {"name": name},
        "provider": "cron",
        "schedule": {"every": every},
        "config": config,
    }


@pytest.fixture
def outside(stack: Stack) -> Iterator[Outside]:
    with closing(Outside(stack)) as client:
        yield client


@pytest.fixture
async def cron(stack: Stack, tmp_path: Path) -> AsyncIterator[Callable[..., Child]]:
    async with replicas(stack, "cron", tmp_path) as make:
        yield make


def slots(outside: Outside, source: str = "ticks") -> list[datetime]:
    """The slots of all stored events, repeats included."""
    return [
        datetime.fromisoformat(json.loads(event["data"])["slot"])
        for event in outside.events()
        if event["source"] == source
    ]


def assert_unbroken(found: list[datetime]) -> None:
    """Every second between the first and the last has its slot."""
    wanted = [min(found) + timedelta(seconds=n) for n in range(len(set(found)))]
    assert sorted(set(found)) == wanted


async def test_each_slot_comes_though_the_process_is_killed_between_every_two_steps(
    outside: Outside, cron: Callable[..., Child]
) -> None:
    outside.apply(ticking())
    for point in ("source.published-before-save:3", "source.fetched-before-publish:3", "source.saved:3"):
        child = await cron(failpoint=point).start()
        assert await child.wait(40) == 137, child.log()[-3000:]
        assert_unbroken(slots(outside))
    last = await cron().start()
    reached = max(slots(outside)) + timedelta(seconds=15)
    await eventually(lambda: max(slots(outside)) >= reached, 40, [last])
    found = slots(outside)
    assert_unbroken(found)
    assert len(found) - len(set(found)) <= 1, "only the slot in flight may come again"
    prints = {event["fingerprint"] for event in outside.events()}
    assert len(prints) == len(set(found))
    assert all(print_.startswith("cron/ticks:") for print_ in prints)
    assert await last.stop() == 0


async def test_a_second_replica_takes_the_dead_one_s_schedules_over_and_skips_no_slot(
    outside: Outside, cron: Callable[..., Child]
) -> None:
    names = [f"tick-{number}" for number in range(12)]
    outside.apply(*(ticking(name) for name in names))
    replicas = [await cron(instance_id=f"cron-{number}").start() for number in range(2)]
    await eventually(
        lambda: {record["saved_by"] for record in outside.cursors()} == {"cron-0", "cron-1"}, 40, replicas
    )
    await eventually(lambda: all(slots(outside, name) for name in names), 20, replicas)

    await replicas[0].kill()
    killed_at = datetime.now(UTC)
    alive = killed_at + timedelta(seconds=1)
    await eventually(lambda: all(max(slots(outside, name)) > alive for name in names), 20, replicas)
    print(f"every schedule goes on {(datetime.now(UTC) - killed_at).total_seconds():.1f} s after kill -9")
    for name in names:
        assert_unbroken(slots(outside, name))


async def test_an_edit_keeps_the_position_and_a_faulty_one_is_said_and_mended(
    outside: Outside, cron: Callable[..., Child]
) -> None:
    outside.apply(ticking())
    child = await cron().start()
    await eventually(lambda: len(slots(outside)) >= 2, 30, [child])
    outside.apply({**ticking(), "schedule": {"cron": "* * *"}})
    await eventually(lambda: "five fields" in child.log(), 10, [child])
    outside.apply(ticking(input={"report": "daily"}))
    await eventually(
        lambda: json.loads(outside.events()[-1]["data"])["input"] == {"report": "daily"}, 15, [child]
    )
    assert_unbroken(slots(outside))
    assert await child.stop() == 0

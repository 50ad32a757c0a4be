"""The poller on a real broker: killed anywhere, shared by replicas, edited while it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from headgate.common.testing.cluster import Stack
from headgate.common.testing.fake_github import FakeGitHub
from headgate.common.testing.services import Child, Outside, eventually

pytestmark = pytest.mark.kafka

BACKFILL = {"startup": {"backfill": "24h"}}


@pytest.fixture
async def github() -> AsyncIterator[FakeGitHub]:
    async with FakeGitHub().serve() as fake:
        yield fake


@pytest.fixture
def outside(stack: Stack) -> Iterator[Outside]:
    client = Outside(stack)
    yield client
    client.close()


@pytest.fixture
async def poller(stack: Stack, tmp_path: Path) -> AsyncIterator[Callable[..., Child]]:
    """Makes pollers; whatever still runs at the end is killed."""
    made: list[Child] = []

    def make(**env: str) -> Child:
        log = tmp_path / f"poller-{len(made)}.log"
        made.append(Child(stack, "poller", log, egress_allow='["127.0.0.0/8"]', **env))
        return made[-1]

    yield make
    for child in made:
        await child.kill()


def fingerprints(outside: Outside) -> list[str]:
    return [event["fingerprint"].partition(":")[2] for event in outside.events()]


@pytest.mark.parametrize("visit", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("point", ["fetched-before-publish", "published-before-save", "saved"])
async def test_a_poller_killed_between_any_two_steps_skips_nothing(
    stack: Stack, github: FakeGitHub, outside: Outside, poller: Callable[..., Child], point: str, visit: int
) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    wanted = {github.put(number, start + timedelta(seconds=number // 3)) for number in range(1, 21)}
    outside.apply(github.source(config={"page_size": 5}, **BACKFILL))

    first = await poller(failpoint=f"source.{point}:{visit}").start()
    assert await first.wait(40) == 137, first.log()[-3000:]
    stored = set(fingerprints(outside))
    for cursor in outside.cursors():
        passed = datetime.fromisoformat(__import__("json").loads(cursor["cursor"])["since"])
        behind = {key for key in wanted if datetime.fromisoformat(key.rsplit(":", 3)[1] if False else key.split(":", 2)[2]) < passed}
        assert behind <= stored, "the cursor ran ahead of what is stored"

    wanted |= {github.put(number, start + timedelta(seconds=20)) for number in range(21, 25)}
    second = await poller().start()
    await eventually(lambda: set(fingerprints(outside)) >= wanted, 40, [second])
    found = fingerprints(outside)
    assert set(found) == wanted
    assert len(found) - len(wanted) <= 5, "more than the page that was in flight came again"
    assert await second.stop() == 0

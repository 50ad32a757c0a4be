"""The poller on a real broker: killed anywhere, shared by replicas, edited while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from headgate.common.testing.cluster import Stack
from headgate.common.testing.fake_github import FakeGitHub
from headgate.common.testing.services import Child, Outside, eventually, replicas

pytestmark = pytest.mark.kafka

BACKFILL: dict[str, Any] = {"startup": {"backfill": "24h"}}


@pytest.fixture
async def github() -> AsyncIterator[FakeGitHub]:
    async with FakeGitHub().serve() as fake:
        yield fake


@pytest.fixture
def outside(stack: Stack) -> Iterator[Outside]:
    with closing(Outside(stack)) as client:
        yield client


@pytest.fixture
async def poller(stack: Stack, tmp_path: Path) -> AsyncIterator[Callable[..., Child]]:
    async with replicas(stack, "poller", tmp_path, egress_allow='["127.0.0.0/8"]') as make:
        yield make


def keys(outside: Outside) -> list[str]:
    """The keys of all stored events, repeats included."""
    return [event["fingerprint"].partition(":")[2] for event in outside.events()]


def assert_no_cursor_ran_ahead(outside: Outside, wanted: set[str]) -> None:
    """Whatever a saved position has passed is stored on the raw topic."""
    positions = [json.loads(record["cursor"])["since"] for record in outside.cursors()]
    stored = set(keys(outside))
    furthest = max(map(datetime.fromisoformat, positions))
    passed = {key for key in wanted if datetime.fromisoformat(key.split(":", 2)[2]) < furthest}
    assert passed <= stored


@pytest.mark.parametrize(
    ("point", "visit"), [("fetched-before-publish", 1), ("published-before-save", 3), ("saved", 2)]
)
async def test_a_poller_killed_between_two_steps_skips_nothing(
    github: FakeGitHub, outside: Outside, poller: Callable[..., Child], point: str, visit: int
) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    wanted = {github.put(number, start + timedelta(seconds=number // 3)) for number in range(1, 21)}
    outside.apply(github.source(config={"page_size": 5}, **BACKFILL))

    first = await poller(failpoint=f"source.{point}:{visit}").start()
    assert await first.wait(40) == 137, first.log()[-3000:]
    assert_no_cursor_ran_ahead(outside, wanted)

    wanted |= {github.put(number, start + timedelta(seconds=20)) for number in range(21, 25)}
    second = await poller().start()
    await eventually(lambda: set(keys(outside)) >= wanted, 40, [second])
    found = keys(outside)
    assert set(found) == wanted
    assert len(found) - len(wanted) <= 5, "more than the page in flight came again"
    assert_no_cursor_ran_ahead(outside, wanted)
    assert await second.stop() == 0


def _all_saw(outside: Outside, number: int, names: set[str]) -> bool:
    return names == {
        event["source"] for event in outside.events() if json.loads(event["data"])["number"] == number
    }


async def test_two_replicas_share_the_sources_and_one_takes_over_from_the_dead_one(
    github: FakeGitHub, outside: Outside, poller: Callable[..., Child]
) -> None:
    names = [f"repo-{number}" for number in range(12)]
    outside.apply(*(github.source(name, startup={"backfill": "1h"}) for name in names))
    replicas = [await poller(instance_id=f"poller-{number}").start() for number in range(2)]

    def seen(number: int) -> list[str]:
        """The sources that have published this issue, repeats included."""
        return [
            event["source"] for event in outside.events() if json.loads(event["data"])["number"] == number
        ]

    github.put(1)
    await eventually(lambda: set(seen(1)) == set(names), 40, replicas)

    # Who starts first may have read everything before the other has its share, and a position that does not
    # move is not saved again: news shows who follows which source.
    for news in range(100, 140):
        github.put(news)
        await eventually(partial(_all_saw, outside, news, set(names)), 40, replicas)
        if {record["saved_by"] for record in outside.cursors()} == {"poller-0", "poller-1"}:
            break
    assert {record["saved_by"] for record in outside.cursors()} == {"poller-0", "poller-1"}

    await replicas[0].kill()
    killed_at = time.monotonic()
    github.put(2)
    await eventually(lambda: set(seen(2)) == set(names), 20, replicas)
    print(f"taken over and published {time.monotonic() - killed_at:.1f} s after kill -9")
    assert sorted(seen(1)) == sorted(names), "what was saved was published again"


async def test_a_replica_that_was_taken_for_dead_and_is_not_repeats_at_most(
    github: FakeGitHub, outside: Outside, poller: Callable[..., Child]
) -> None:
    wanted = {github.put(1)}
    outside.apply(github.source(startup={"backfill": "1h"}))
    zombie = await poller(instance_id="zombie").start()
    await eventually(lambda: set(keys(outside)) == wanted, 40, [zombie])

    zombie.pause()
    wanted.add(github.put(2))
    heir = await poller(instance_id="heir").start()
    await eventually(lambda: set(keys(outside)) == wanted, 40, [heir])
    zombie.resume()
    wanted.add(github.put(3))
    await eventually(lambda: set(keys(outside)) == wanted, 20, [zombie, heir])
    await heir.kill()
    wanted.add(github.put(4))
    await eventually(lambda: set(keys(outside)) == wanted, 40, [zombie])
    assert_no_cursor_ran_ahead(outside, wanted)
    assert len(keys(outside)) <= len(wanted) + 3


async def test_sources_come_change_and_go_while_the_poller_runs(
    github: FakeGitHub, outside: Outside, poller: Callable[..., Child]
) -> None:
    running = await poller().start()
    first = github.put(1)
    outside.apply(github.source(startup={"backfill": "1h"}))
    await eventually(lambda: first in keys(outside), 30, [running])

    other = github.put(2, labels=["x"])
    outside.apply(github.source(startup={"backfill": "24h"}, config={"page_size": 7}))
    await eventually(lambda: other in keys(outside), 30, [running])
    await eventually(lambda: github.asked[-1]["per_page"] == "7", 10, [running])
    assert keys(outside).count(first) == 1, "the edit lost the cursor"

    outside.delete("issues")
    await eventually(lambda: "A source is left" in running.log(), 10, [running])
    asked = len(github.asked)
    github.put(3)
    outside.apply(github.source("another"))
    await eventually(lambda: "another" in {record["source"] for record in outside.cursors()}, 20, [running])
    sources = {event["source"] for event in outside.events() if json.loads(event["data"])["number"] == 3}
    assert "issues" not in sources
    assert len(github.asked) > asked


async def test_the_provider_s_clock_decides_where_a_source_begins(
    github: FakeGitHub, outside: Outside, poller: Callable[..., Child]
) -> None:
    github.clock = lambda: datetime.now(UTC) - timedelta(hours=2)
    github.put(1, github.clock() - timedelta(minutes=10))
    outside.apply(github.source())
    running = await poller().start()
    await eventually(lambda: outside.cursors(), 30, [running])
    new = github.put(2)
    await eventually(lambda: new in keys(outside), 20, [running])
    assert keys(outside) == [new]


async def test_an_item_nobody_can_read_is_dead_lettered_once_and_the_others_pass(
    stack: Stack, github: FakeGitHub, outside: Outside, poller: Callable[..., Child]
) -> None:
    good = {github.put(1), github.put(3)}
    github.put(2)
    del github.issues[2]["node_id"]
    outside.apply(github.source(startup={"backfill": "1h"}))
    running = await poller().start()
    await eventually(lambda: set(keys(outside)) == good, 30, [running])
    later = github.put(4)
    await eventually(lambda: later in keys(outside), 20, [running])
    letters = outside.read(stack.topics.dlq)
    assert [json.loads(letter[3] or b"")["number"] for letter in letters] == [2]


async def test_a_list_longer_than_the_send_queue_and_items_no_record_can_hold_stop_nothing(
    stack: Stack, outside: Outside, poller: Callable[..., Child]
) -> None:
    now = datetime.now(UTC).isoformat()
    rows = [{"id": str(number), "at": now} for number in range(21_000)]
    strange = [{"id": "large", "at": now, "text": "x" * 7_000_000}, {"id": "\ud83d", "at": now}]
    body = json.dumps([*rows, *strange]).encode()

    async def listed(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/list", listed)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    outside.apply(
        {
            "apiVersion": "headgate/v1",
            "kind": "Source",
            "metadata": {"name": "long"},
            "provider": "json",
            "schedule": {"every": "1s"},
            "startup": {"backfill": "1h"},
            "config": {"url": f"http://127.0.0.1:{runner.addresses[0][1]}/list", "time": "at"},
        }
    )
    try:
        running = await poller().start()
        await eventually(lambda: any(one["boundary"] for one in outside.cursors()), 40, [running])
    finally:
        await runner.cleanup()
    assert set(keys(outside)) == {row["id"] for row in rows}
    letters = outside.read(stack.topics.dlq)
    assert sorted(len(letter[3] or b"") for letter in letters) == [len(json.dumps(strange[1])), 2**20]
    assert "send queue is full" not in running.log()


async def test_the_token_is_on_the_request_and_nowhere_else(
    stack: Stack,
    github: FakeGitHub,
    outside: Outside,
    poller: Callable[..., Child],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = "ghp_canary0123456789"
    monkeypatch.setenv("POLLER_TEST_TOKEN", canary)
    github.token = canary
    event = github.put(1)
    auth = {"auth": {"secret": {"env": "POLLER_TEST_TOKEN"}}}
    outside.apply(github.source(startup={"backfill": "1h"}, config=auth))
    running = await poller(log_level="debug").start()
    await eventually(lambda: event in keys(outside), 30, [running])
    github.token = "another"
    await eventually(lambda: "rejected the credential" in running.log(), 20, [running])
    stored = [
        bytes(record[3] or b"")
        for name in ("raw", "cursors", "dlq", "sources")
        for record in outside.read(getattr(stack.topics, name))
    ]
    assert not any(canary.encode() in value for value in stored)
    assert canary not in running.log()

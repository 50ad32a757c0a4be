"""A cron trigger and a GitHub poll each start their runs, once, while the services that bring them are killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.common.testing.cluster import Stack
from headgate.common.testing.fake_github import FakeGitHub
from headgate.common.testing.services import Child, Outside, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TRIGGERS = """
apiVersion: headgate/v1
kind: Trigger
metadata: {{name: on-issue}}
sources:
  - provider: github
    query: {{owner: octo-org, repo: octo-repo, base_url: "{github}", page_size: 3}}
    schedule: {{every: 1s}}
    startup: {{backfill: 4h}}
action: {{local: {{note: "{{{{ event.data.number }}}}"}}}}
---
apiVersion: headgate/v1
kind: Trigger
metadata: {{name: on-slot}}
sources:
  - provider: cron
    schedule: {{every: 1s}}
action: {{local: {{note: "{{{{ event.data.slot }}}}"}}}}
"""


@pytest.fixture
def outside(stack: Stack) -> Iterator[Outside]:
    client = Outside(stack)
    yield client
    client.close()


@pytest.fixture
async def github() -> AsyncIterator[FakeGitHub]:
    async with FakeGitHub().serve() as fake:
        yield fake


@pytest.fixture
async def children() -> AsyncIterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        await child.kill()


async def test_each_issue_and_each_slot_starts_one_run_though_poller_and_cron_are_killed(
    stack: Stack, outside: Outside, github: FakeGitHub, children: list[Child], tmp_path: Path
) -> None:
    async def start(name: str, **env: str) -> Child:
        child = Child(stack, name, tmp_path / f"{name}-{len(children)}.log", **env)
        children.append(child)
        return await child.start()

    def runs(trigger: str) -> list[dict[str, Any]]:
        """What the local engine ran for a trigger: one line a start."""
        found = [json.loads(record[3] or b"{}") for record in outside.read(stack.topics.local_runs)]
        return [line for line in found if line["trigger"] == trigger]

    now = datetime.now(UTC)
    numbers = list(range(1, 12))
    for number in numbers:
        github.put(number, now - timedelta(hours=1) + timedelta(seconds=number // 4))
    document = tmp_path / "triggers.yaml"
    document.write_text(TRIGGERS.format(github=github.url), "utf-8")
    await apply(stack, document)
    await start("processor")
    await start("runner")
    egress = '["127.0.0.0/8"]'
    killed = await start("poller", egress_allow=egress, failpoint="source.published-before-save:2")
    cron = await start("cron", failpoint="source.published-before-save:4")
    assert await killed.wait(60) == 137
    assert await cron.wait(60) == 137
    await start("poller", egress_allow=egress)
    await start("cron")

    def notes(trigger: str) -> list[str]:
        return [str(run["note"]) for run in runs(trigger)]

    await eventually(lambda: set(notes("on-issue")) == {str(n) for n in numbers}, 60, children)
    slots = [json.loads(event["data"])["slot"] for event in outside.events() if event["provider"] == "cron"]
    await eventually(lambda: set(notes("on-slot")) >= set(slots) and len(notes("on-slot")) > 25, 60, children)
    for trigger in ("on-issue", "on-slot"):
        started = notes(trigger)
        assert len(started) == len(set(started)), "a run was started twice"
    found = sorted(map(datetime.fromisoformat, notes("on-slot")))
    assert found == [found[0] + timedelta(seconds=n) for n in range(len(found))], "a slot was skipped"


async def apply(stack: Stack, document: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("headgate"), "apply", "-f", document, env={**stack.env(), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()

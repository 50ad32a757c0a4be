"""A thousand copies of one delivery, in parallel over two ingest processes."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp
import pytest
from tests.harness.asking import one_run, runs_of
from tests.harness.pipeline import Pipeline
from tests.harness.plan import Door, Kind, Planned, token
from tests.harness.senders import delivery

pytestmark = pytest.mark.kafka

COPIES = 1000


@pytest.mark.parametrize("door", [Door.GITHUB, Door.GENERIC])
async def test_a_thousand_parallel_copies_over_two_processes_are_one_run(
    pipeline: Pipeline, door: Door
) -> None:
    seed, event = 4004, Planned(list(Door).index(door), Kind.NEW, door, list(Door).index(door))
    path, headers, body = delivery(seed, event)
    bases = pipeline.ingest_urls
    assert len(bases) == 2

    async def post(session: aiohttp.ClientSession, copy: int) -> int:
        async with session.post(bases[copy % 2] + path, data=body, headers=headers) as answer:
            return answer.status

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=128)) as session:
        answers = Counter(await asyncio.gather(*(post(session, copy) for copy in range(COPIES))))
    assert answers == {202: COPIES}
    mark = token(seed, event.origin)
    run = await one_run(pipeline, mark)
    await pipeline.drained()
    assert runs_of(pipeline, mark) == [run]
    assert len([one for one, _ in pipeline.attempts() if one == run]) == 1

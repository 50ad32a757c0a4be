"""Kafka is stopped while webhooks arrive; the registry is stopped while everything runs."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp
import pytest
from tests.harness.asking import one_run, runs_of
from tests.harness.observers import TopicReader
from tests.harness.pipeline import Pipeline
from tests.harness.plan import Door, Kind, Planned, find_token, token
from tests.harness.senders import delivery
from tests.harness.waiting import until

pytestmark = pytest.mark.kafka

SEED = 6006
WEBHOOKS = 300
GROWTH = 80 * 2**20


async def post(session: aiohttp.ClientSession, base: str, seq: int) -> int:
    path, headers, body = delivery(SEED, Planned(seq, Kind.NEW, Door.GENERIC, seq))
    try:
        async with session.post(base + path, data=body, headers=headers) as answer:
            if answer.status == 503:
                assert int(answer.headers["Retry-After"]) > 0
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


async def test_registry_stopped_nothing_that_runs_stops(pipeline: Pipeline) -> None:
    registry = pipeline.cluster.registry
    await asyncio.to_thread(registry.process.kill)
    try:
        async with aiohttp.ClientSession() as session:
            answers = [await post(session, base, 900 + n) for n, base in enumerate(pipeline.ingest_urls * 5)]
        assert set(answers) == {202}
        for n in range(len(answers)):
            await one_run(pipeline, token(SEED, 900 + n))
    finally:
        registry.start()
        await asyncio.to_thread(registry.wait_ready, 90)


async def test_kafka_stopped_no_promise_without_a_stored_event_and_work_resumes_by_itself(
    pipeline: Pipeline, reader: TopicReader
) -> None:
    kafka = pipeline.cluster.kafka
    memory = pipeline.memory()
    bases = pipeline.ingest_urls
    await asyncio.to_thread(kafka.kill)
    try:
        timeout = aiohttp.ClientTimeout(total=20)
        connector = aiohttp.TCPConnector(limit=100)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            posts = (post(session, bases[seq % 2], seq) for seq in range(WEBHOOKS))
            answers = dict(enumerate(await asyncio.gather(*posts)))
        assert Counter(answers.values()) == {503: WEBHOOKS}
        grown = {name: size - memory[name] for name, size in pipeline.memory().items()}
        assert max(grown.values()) < GROWTH, grown
        ready = [await pipeline.is_ready(name) for name in ("ingest-1", "ingest-2")]
        assert ready == [False, False]
    finally:
        kafka.start()
        await asyncio.to_thread(kafka.wait_ready, 90)

    async with aiohttp.ClientSession() as session:

        async def accepted() -> bool:
            return await post(session, bases[0], WEBHOOKS) == 202

        await until("webhooks are accepted again", accepted, seconds=60)
    await one_run(pipeline, token(SEED, WEBHOOKS), seconds=60)
    await pipeline.drained()
    stored = {found[1] for one in reader.records(pipeline.topics.raw) if (found := find_token(one.value))}
    promised = {seq for seq, status in answers.items() if status == 202} | {WEBHOOKS}
    assert promised <= stored
    for seq in stored & set(answers):
        assert len(runs_of(pipeline, token(SEED, seq))) == 1

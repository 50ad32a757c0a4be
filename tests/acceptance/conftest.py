"""One whole Headgate for the session: a broker, a registry, two ingest processes, processor, runner, an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.harness.cluster import PORTS, SPAN, Cluster
from tests.harness.observers import TopicReader
from tests.harness.pipeline import Pipeline, documents

REPLICAS = {"ingest": 2, "processor": 1, "runner": 1}


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """Everything is ready, and the trigger of `tests.harness.pipeline.documents` is applied."""
    home = tmp_path_factory.mktemp("acceptance")
    cluster = Cluster(home / "cluster", ports=PORTS + 2 * SPAN)
    try:
        asyncio.run(cluster.up())
        running = Pipeline(cluster, "acceptance", home / "headgate", REPLICAS)
        try:
            asyncio.run(running.up(documents(running.engine_url)))
            yield running
        finally:
            running.down()
    finally:
        cluster.down()


@pytest.fixture
def reader(pipeline: Pipeline) -> Iterator[TopicReader]:
    """Everything on the topics, from their beginning."""
    topics = pipeline.topics
    watched = (topics.raw, topics.rekeyed, topics.matched, topics.decisions, topics.dlq)
    reader = TopicReader(pipeline.cluster.bootstrap, watched)
    yield reader
    reader.close()

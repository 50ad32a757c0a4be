"""pytest fixtures: a real Kafka and a real registry for the session, fresh topics for each test.

Where they come from, first that applies:
`HEADGATE_TEST_BOOTSTRAP` and `HEADGATE_TEST_REGISTRY` (running ones, for quick turns while developing);
Docker through testcontainers, when `HEADGATE_TEST_DOCKER=1` and a daemon answers; else the embedded jars.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headgate.common.embedded.kafka import Kafka
from headgate.common.embedded.registry import SchemaRegistry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.testing import docker
from headgate.common.topics import Topics


@dataclass(frozen=True)
class Stack:
    """One test's own world: a topic prefix nobody else has, its topics and its schemas."""

    kafka: KafkaSettings
    registry: RegistrySettings
    topics: Topics
    state_dir: Path
    schema_ids: dict[str, int] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def prefix(self) -> str:
        return self.topics.prefix

    def env(self, **more: str) -> dict[str, str]:
        """What a service started as a child process needs to join this world; `more` as HEADGATE_<NAME>."""
        return {
            "HEADGATE_KAFKA__BOOTSTRAP": self.kafka.bootstrap,
            "HEADGATE_KAFKA__PREFIX": self.topics.prefix,
            "HEADGATE_REGISTRY__URL": self.registry.url,
            "HEADGATE_STATE_DIR": str(self.state_dir),
            **{f"HEADGATE_{name.upper()}": value for name, value in more.items()},
        }


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of a broker."""
    running = os.environ.get("HEADGATE_TEST_BOOTSTRAP")
    if running:
        yield running
    elif docker.wanted():
        with docker.kafka() as bootstrap:
            yield bootstrap
    else:
        with Kafka(tmp_path_factory.mktemp("kafka")) as cluster:
            yield cluster.bootstrap


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Schema Registry (Confluent's API)."""
    running = os.environ.get("HEADGATE_TEST_REGISTRY")
    if running:
        yield running
    elif docker.wanted():
        with docker.registry() as url:
            yield url
    else:
        with SchemaRegistry(tmp_path_factory.mktemp("registry")) as server:
            yield server.url


@pytest.fixture
def stack(kafka: str, registry: str, tmp_path: Path) -> Iterator[Stack]:
    """Topics created and schemas registered under a fresh prefix; removed again afterwards."""
    from headgate.common.registry import Registry
    from headgate.common.topicadmin import TopicAdmin

    topics = Topics(prefix=f"t{uuid.uuid4().hex[:10]}")
    kafka_settings = KafkaSettings(bootstrap=kafka, prefix=topics.prefix)
    registry_settings = RegistrySettings(url=registry, timeout_seconds=15)
    TopicAdmin(kafka_settings).apply(topics)
    client = Registry(registry_settings)
    try:
        ids = client.install(topics)
    finally:
        client.close()
    yield Stack(kafka_settings, registry_settings, topics, tmp_path / "state", ids)
    _delete(kafka_settings, topics)


def _delete(settings: KafkaSettings, topics: Topics) -> None:
    """Best effort: a session's broker should not carry hundreds of dead partitions."""
    from confluent_kafka.admin import AdminClient

    config: dict[str, Any] = {**settings.librdkafka(), "log_level": 0}
    admin = AdminClient(config)
    for gone in admin.delete_topics([topic.name for topic in topics.all], operation_timeout=5).values():
        gone.exception(timeout=10)

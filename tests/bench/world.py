"""The machine as a benchmark uses it: a real Kafka and registry, and one core for what is measured."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx
import psutil
import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.common import fingerprints
from headgate.common.embedded.kafka import Kafka
from headgate.common.embedded.ports import free
from headgate.common.embedded.process import Process
from headgate.common.embedded.registry import SchemaRegistry
from headgate.common.model import Source, Stored, Trigger
from headgate.common.registry import Codec, Registry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.topicadmin import TopicAdmin
from headgate.common.topics import Topics

READY_SECONDS = 90
_PIN = (
    "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(',')));"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


@cache
def split_cores() -> tuple[int, set[int]]:
    """One core for what is measured; the others for Kafka, load and ourselves. Asked once: after `world` has
    bound us to the others, they are all that we see."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1], set(cores[:-1]) or set(cores)


@dataclass(frozen=True)
class Prefix:
    """A topic prefix of one measurement: nothing of an earlier one is in its topics."""

    kafka: KafkaSettings
    registry: RegistrySettings
    topics: Topics
    codec: Codec
    directory: Path

    def env(self, **more: str) -> dict[str, str]:
        return {
            "HEADGATE_KAFKA__BOOTSTRAP": self.kafka.bootstrap,
            "HEADGATE_KAFKA__PREFIX": self.topics.prefix,
            "HEADGATE_REGISTRY__URL": self.registry.url,
            "HEADGATE_STATE_DIR": str(self.directory / "state"),
            "HEADGATE_LOG_LEVEL": "warning",
            **more,
        }

    def put(self, document: str) -> None:
        """Store a trigger and the sources in it, as `headgate apply` would."""
        trigger = Trigger.model_validate(yaml.safe_load(document))
        producer = Producer(self.kafka.librdkafka())
        now = time.time_ns() // 1000
        stored: list[tuple[str, str, Stored[Trigger] | Stored[Source]]] = [
            (
                self.topics.triggers,
                "TriggerRecord",
                Stored(trigger.name, self._uid("trigger", trigger.name), 1, now, "bench", trigger),
            )
        ]
        for source in trigger.written_sources():
            uid = self._uid("source", source.name)
            stored.append(
                (self.topics.sources, "SourceRecord", Stored(source.name, uid, 1, now, "bench", source))
            )
        for topic, record, one in stored:
            producer.produce(topic, key=one.name, value=self.codec.encode(record, one.record()))
        producer.flush(10)

    def _uid(self, kind: str, name: str) -> str:
        return fingerprints.uid(self.topics.prefix, kind, name)


class World:
    """Started once for all benchmarks of a run."""

    def __init__(self, bootstrap: str, registry_url: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.registry_url = registry_url
        self.directory = directory
        self.core, self.others = split_cores()
        self._all_cores = False
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    @contextmanager
    def prefix(self) -> Iterator[Prefix]:
        """Topics and schemas under a name of their own, gone afterwards."""
        topics = Topics(prefix=f"bench{uuid.uuid4().hex[:8]}")
        kafka = KafkaSettings(bootstrap=self.bootstrap, prefix=topics.prefix)
        registry = RegistrySettings(url=self.registry_url, timeout_seconds=30)
        TopicAdmin(kafka).apply(topics)
        client = Registry(registry)
        client.install(topics)
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield Prefix(kafka, registry, topics, Codec(client, topics), directory)
        finally:
            client.close()
            for gone in self._admin.delete_topics([one.name for one in topics.all]).values():
                gone.exception(timeout=30)

    def start(
        self, name: str, command: Sequence[str], env: Mapping[str, str], *, pinned: bool = False
    ) -> Process:
        """A child of ours; pinned, it has the measured core to itself."""
        cores = {self.core} if pinned else {self.core, *self.others} if self._all_cores else self.others
        command = [sys.executable, "-c", _PIN, ",".join(map(str, cores)), *command]
        process = Process(name, command, log=self.directory / f"{name}.log", env=env)
        process.start()
        return process

    @contextmanager
    def all_cores(self) -> Iterator[None]:
        """What starts meanwhile shares all cores, as in life: for measurements of many processes together."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.core, *self.others})
        self._all_cores = True
        try:
            yield
        finally:
            self._all_cores = False
            os.sched_setaffinity(0, before)

    @contextmanager
    def service(self, name: str, prefix: Prefix, *, pinned: bool = False, **more: str) -> Iterator[Process]:
        """`python -m headgate.<name>`, until it is ready and then until the block ends."""
        port = free()[0]
        env = prefix.env(HEADGATE_HEALTH_PORT=str(port), **more)
        process = self.start(name, [sys.executable, "-m", f"headgate.{name}"], env, pinned=pinned)
        try:
            process.wait_ready(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), READY_SECONDS)
            yield process
        finally:
            process.stop(20)

    def count(self, topics: Topics, *names: str) -> int:
        """Records in these topics, in all."""
        asked = {
            TopicPartition(name, partition): OffsetSpec.latest()
            for name in names
            for partition in range(topics.get(name).partitions)
        }
        return sum(one.result(timeout=10).offset for one in self._admin.list_offsets(asked).values())


@contextmanager
def world(bootstrap: str | None, registry: str | None) -> Iterator[World]:
    """A running Kafka and registry, or ones started for the occasion at full speed."""
    os.sched_setaffinity(0, split_cores()[1])
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-bench-")))
        if bootstrap is None:
            bootstrap = stack.enter_context(Kafka(directory / "kafka", full_speed=True)).bootstrap
        if registry is None:
            registry = stack.enter_context(SchemaRegistry(directory / "registry")).url
        yield World(bootstrap, registry, directory)


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used, with its children."""
    try:
        process = psutil.Process(pid)
        each = [process, *process.children(recursive=True)]
        return sum(one.cpu_times().user + one.cpu_times().system for one in each)
    except psutil.NoSuchProcess:
        return float("nan")


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False

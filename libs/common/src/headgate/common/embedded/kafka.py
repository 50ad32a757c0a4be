"""Apache Kafka in KRaft mode on loopback: one broker for people and tests, three for chaos.

Every node is broker and controller at once. Data survives a restart, also one with other ports.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headgate.common.embedded.download import ensure
from headgate.common.embedded.java import FAST_START, FULL_SPEED, UTF8, java
from headgate.common.embedded.ports import free, is_open
from headgate.common.embedded.process import Process, ProcessFailed

READY_SECONDS = 120
HEAP = "-Xmx320m"


@dataclass(frozen=True)
class Node:
    """One broker's number and ports."""

    number: int
    port: int
    controller_port: int


def properties(node: Node, nodes: Sequence[Node], data: str) -> dict[str, str]:
    """The broker's configuration: small buffers, quick elections, nothing created behind our back."""
    copies = min(3, len(nodes))
    in_sync = max(1, copies - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(f"{n.number}@127.0.0.1:{n.controller_port}" for n in nodes),
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "num.network.threads": "2",
        "num.io.threads": "4",
    }


class Broker:
    """One node as a process that can be stopped, killed, paused by signals and started again."""

    def __init__(
        self,
        node: Node,
        nodes: Sequence[Node],
        directory: Path,
        logs: Path,
        more: Mapping[str, str],
        *,
        full_speed: bool,
    ) -> None:
        self.node = node
        self._directory = directory / f"broker-{node.number}"
        self._data = self._directory / "data"
        self._config = self._directory / "server.properties"
        # Said from the folder it runs in: a comma or an umlaut further up would not survive Kafka's reading of it.
        self._properties = {**properties(node, nodes, self._data.name), **more}
        flags = FULL_SPEED if full_speed else [HEAP, *FAST_START]
        self._java = [java(), *flags, *_LOGGING, "-cp", ":".join(map(str, ensure().kafka_jars))]
        name = "kafka" if len(nodes) == 1 else f"kafka-{node.number}"
        self.process = Process(
            name,
            [*self._java, "kafka.Kafka", self._config.name],
            log=logs / f"{name}.log",
            env=UTF8,
            cwd=self._directory,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.node.port}"

    def prepare(self, cluster_id: str) -> None:
        """Write the configuration; format the data folder unless it is."""
        self._data.mkdir(parents=True, exist_ok=True)
        self._config.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        if (self._data / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", self._config.name]
        done = subprocess.run(
            [*self._java, *tool],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **UTF8},
            cwd=self._directory,
        )
        if done.returncode != 0:
            raise ProcessFailed(f"Kafka could not format {self._data}:\n{done.stdout}{done.stderr}")


class Kafka:
    """A cluster of one or more brokers under one directory.

    with Kafka(Path(".headgate/kafka"), ports=[9092]) as kafka:
        print(kafka.bootstrap)
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        ports: Sequence[int] = (),
        controller_ports: Sequence[int] = (),
        full_speed: bool = False,
        logs: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Ports not given are chosen among free ones. `full_speed` for benchmarks: slower to start. `logs` is the
        folder for logs, if not this one. `more` are settings of each broker that beat ours."""
        self.directory = directory
        found = free(2 * brokers)
        clients = list(ports) or found[:brokers]
        controllers = list(controller_ports) or found[brokers:]
        if len(clients) != brokers or len(controllers) != brokers:
            raise ValueError(f"{brokers} brokers need as many ports and controller ports")
        nodes = [
            Node(number, port, controller)
            for number, (port, controller) in enumerate(zip(clients, controllers, strict=True), start=1)
        ]
        self.brokers = [
            Broker(node, nodes, directory, logs or directory, more or {}, full_speed=full_speed)
            for node in nodes
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def prepare(self) -> None:
        """Configuration and data folders of every broker that does not run; a second when they are new."""
        idle = [broker for broker in self.brokers if not broker.process.running]
        with ThreadPoolExecutor(max(1, len(idle))) as pool:
            list(pool.map(lambda broker: broker.prepare(self._cluster_id()), idle))

    def start(self) -> None:
        """Start every broker that does not run; returns at once, see `wait_ready`."""
        self.prepare()
        for broker in self.brokers:
            if not broker.process.running:
                broker.process.start()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Every broker answers, and a client that asks sees all of them."""
        for broker in self.brokers:
            broker.process.wait_ready(partial(is_open, broker.node.port), seconds)
        last = self.brokers[-1].process
        last.wait_ready(lambda: _seen_brokers(self.bootstrap) >= len(self.brokers), seconds)

    def stop(self, seconds: float = 15.0) -> None:
        """All at once, so that none waits for another that is already gone."""
        for broker in self.brokers:
            broker.process.terminate()
        for broker in self.brokers:
            broker.process.stop(seconds)

    def kill(self) -> None:
        for broker in self.brokers:
            broker.process.kill()

    def __enter__(self) -> Kafka:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _cluster_id(self) -> str:
        """The same for every broker and every start of this directory."""
        return cluster_id(self.directory.resolve())


def cluster_id(directory: Path) -> str:
    """16 bytes as Kafka writes them. A leading dash would be taken for an option by its tools."""
    known = uuid.uuid5(uuid.NAMESPACE_URL, str(directory))
    return base64.urlsafe_b64encode(known.bytes).decode().rstrip("=").replace("-", "A", 1)


_LOGGING = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
]


def _seen_brokers(bootstrap: str) -> int:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 3000})
    try:
        return len(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        return 0

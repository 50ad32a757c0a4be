"""The brokers and the registry that runs share: started once, each run takes a topic prefix of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from headgate.common.embedded.kafka import Kafka
from headgate.common.embedded.registry import SchemaRegistry

PORTS = int(os.environ.get("CHAOS_PORTS", "27000"))
"""First port of everything the harness starts."""
SPAN = 250
"""What one cluster and its pipeline use from their first port on. Three of them end below `embedded.ports.FIRST`, where
ports are given to whoever asks."""


class Cluster:
    """`brokers` Kafka nodes and one registry, on loopback."""

    def __init__(
        self, home: Path, brokers: int = 1, ports: int = PORTS, more: Mapping[str, str] | None = None
    ) -> None:
        """`more` are settings of each broker."""
        self.home = home
        self.ports = ports
        clients = [ports + n for n in range(brokers)]
        controllers = [ports + 10 + n for n in range(brokers)]
        self.kafka = Kafka(
            home / "kafka", brokers=brokers, ports=clients, controller_ports=controllers, more=more
        )
        self.registry = SchemaRegistry(home / "registry", port=ports + 20)

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def replication(self) -> int:
        return len(self.kafka.brokers)

    async def up(self) -> None:
        self.kafka.start()
        self.registry.start()
        await asyncio.to_thread(self.kafka.wait_ready, 120)
        await asyncio.to_thread(self.registry.wait_ready, 120)

    def down(self) -> None:
        for broker in self.kafka.brokers:
            if broker.process.running:
                os.kill(broker.process.pid, signal.SIGCONT)
        self.kafka.kill()
        self.registry.process.kill()

"""Headgate as it runs for real: every service a process of its own, two of each, against a real Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from confluent_kafka import KafkaException
from tests.harness.cluster import Cluster
from tests.harness.evidence import RunRow
from tests.harness.observers import Offsets
from tests.harness.processes import Child, module
from tests.harness.provider import Provider
from tests.harness.senders import SECRETS
from tests.harness.waiting import until

from headgate.common.registry import Registry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.topicadmin import TopicAdmin
from headgate.common.topics import Topics

TRIGGER = "chaos"
CRON = "chaos-cron"
MODULES = {
    "ingest": "headgate.ingest_webhook",
    "processor": "headgate.processor",
    "runner": "headgate.runner",
    "poller": "headgate.poller",
    "cron": "headgate.cron",
}
REPLICAS = {"ingest": 2, "processor": 2, "runner": 2}
READY_SECONDS = 120.0


class Pipeline:
    """The services of one topic prefix, and the engine they start runs at."""

    def __init__(
        self,
        cluster: Cluster,
        prefix: str,
        home: Path,
        replicas: Mapping[str, int] | None = None,
        launchers: Mapping[str, Sequence[str]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`launchers` replaces the command line of a service (known-bad modes); `settings` adds environment."""
        self.cluster = cluster
        self.prefix = prefix
        self.home = home
        self.topics = Topics(prefix)
        self.groups = {
            self.topics.processor_app: (self.topics.raw, self.topics.rekeyed),
            f"{prefix}.runner": (self.topics.matched,),
        }
        self.engine_port = cluster.ports + 30
        self.engine_url = f"http://127.0.0.1:{self.engine_port}"
        self.database = home / "engine.db"
        self.offsets = Offsets(cluster.bootstrap, self.groups)
        self.provider = Provider(cluster.ports + 31)
        self.services: dict[str, Child] = {}
        self.health_ports: dict[str, int] = {}
        self._common = {**self._environment(), **(settings or {})}
        self._launchers = launchers or {}
        for kind, count in (replicas or REPLICAS).items():
            for number in range(1, count + 1):
                self.add(kind, number)
        arguments = ("--database", str(self.database), "--port", str(self.engine_port))
        self.engine = Child("engine", module("tests.harness.engine", *arguments), {}, home)

    def add(self, kind: str, number: int) -> Child:
        """One more replica of a service, not yet started."""
        name = f"{kind}-{number}"
        port = self.cluster.ports + 100 + 20 * list(MODULES).index(kind) + number
        own = {
            "HEADGATE_HEALTH_PORT": str(port),
            "HEADGATE_WEBHOOK_PORT": str(port + 10),
            "HEADGATE_STATE_DIR": str(self.home / "state" / name),
        }
        if kind == "processor":
            own["HEADGATE_INSTANCE_ID"] = name
        command = self._launchers.get(kind) or module(MODULES[kind])
        child = Child(name, command, {**self._common, **own}, self.home)
        self.services[name] = child
        self.health_ports[name] = port
        return child

    def of(self, kind: str) -> list[Child]:
        return [child for name, child in self.services.items() if name.startswith(f"{kind}-")]

    @property
    def ingest_urls(self) -> list[str]:
        ports = [port + 10 for name, port in self.health_ports.items() if name.startswith("ingest-")]
        return [f"http://127.0.0.1:{port}" for port in ports]

    async def up(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Topics, schemas, triggers, engine, services; returns when all of them are ready."""
        await asyncio.to_thread(self.prepare)
        await self.apply(documents)
        if self.of("poller"):
            await self.provider.start()
        self.engine.start()
        for child in self.services.values():
            child.start()
        await self.ready(first=True)

    def prepare(self) -> None:
        """Topics and schemas of this prefix."""
        self.home.mkdir(parents=True, exist_ok=True)
        kafka = KafkaSettings(
            bootstrap=self.cluster.bootstrap, prefix=self.prefix, replication=self.cluster.replication
        )
        problems = [finding for finding in TopicAdmin(kafka).apply(self.topics) if finding.is_problem]
        assert not problems, problems
        registry = Registry(RegistrySettings(url=self.cluster.registry.url, timeout_seconds=30))
        self.raw_schema_id = registry.install(self.topics)[self.topics.raw]
        registry.close()

    async def apply(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """`headgate apply -f -`, as a user would."""
        await self.cli("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    async def cli(self, *arguments: str, text: str = "", check: bool = True) -> str:
        """Run the command line tool against this pipeline; its standard output."""
        process = await asyncio.create_subprocess_exec(
            *module("headgate.cli", *arguments),
            env={**os.environ, **self._common},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(text.encode())
        if check and process.returncode != 0:
            raise AssertionError(
                f"headgate {' '.join(arguments)}: {process.returncode}\n{err.decode()}{out.decode()}"
            )
        return out.decode()

    async def ready(
        self, names: Sequence[str] = (), seconds: float = READY_SECONDS, *, first: bool = False
    ) -> float:
        """Wait until these services (all of them by default) answer /readyz with 200; at a `first` start none
        may end instead."""
        wanted = list(names) or list(self.services)

        async def all_ready() -> bool:
            for name in wanted:
                child = self.services[name]
                assert child.running or not first, f"{name} ended with {child.exit_code}:\n{child.tail(30)}"
                if not child.running or not await self.is_ready(name):
                    return False
            return True

        return await until(f"{', '.join(wanted)} are ready", all_ready, seconds=seconds, every=0.2)

    async def is_ready(self, name: str) -> bool:
        return await self.status(f"http://127.0.0.1:{self.health_ports[name]}/readyz") == 200

    async def status(self, url: str) -> int:
        """The status of a GET; 0 when nobody answers."""
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def pages(self) -> dict[str, str]:
        """/readyz and /metrics of every service that answers."""
        found: dict[str, str] = {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session:
            for name, port in self.health_ports.items():
                for page in ("readyz", "metrics"):
                    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                        async with session.get(f"http://127.0.0.1:{port}/{page}") as answer:
                            found[f"{name}.{page}"] = await answer.text()
        return found

    async def heal(self, resting: Sequence[str] = ()) -> None:
        """Everything runs again and is ready, but for what rests."""
        wanted = [name for name in self.services if name not in resting]
        for child in (self.engine, *(self.services[name] for name in wanted)):
            if not child.running:
                child.start()
        await self.ready(wanted)

    async def faults(self, **faults: Any) -> None:
        """Tell the engine how to misbehave; nothing said means not at all."""
        url = f"{self.engine_url}/faults"
        async with aiohttp.ClientSession() as session, session.put(url, json=faults) as answer:
            answer.raise_for_status()

    def lag(self) -> int:
        """How many records wait: for the processor, then for the runner."""
        processor, runner = (self.offsets.committed(group) for group in self.groups)
        inputs = self.offsets.ends([self.topics.raw, self.topics.rekeyed])
        work = self.offsets.ends([self.topics.matched])
        behind = [end - max(0, processor.get(place, 0)) for place, end in inputs.items()]
        return sum(behind) + sum(end - max(0, runner.get(place, 0)) for place, end in work.items())

    async def drained(self, seconds: float = 60.0) -> float:
        """Wait until nothing waits, twice in a row; the seconds it took."""

        async def twice() -> bool:
            try:
                return await asyncio.to_thread(self.lag) == 0 and await asyncio.to_thread(self.lag) == 0
            except KafkaException:
                return False  # a broker that has just come or gone

        return await until("every group has caught up", twice, seconds=seconds, every=0.3)

    def runs(self, after: int = 0) -> list[RunRow]:
        """The engine's runs, oldest first, from a row number on."""
        return [
            RunRow(*row)
            for row in self._query("SELECT run_id, token, at_ns FROM runs WHERE rowid > ?", after)
        ]

    def attempts(self, after: int = 0) -> list[tuple[str, int]]:
        return list(self._query("SELECT run_id, at_ns FROM attempts WHERE n > ?", after))

    def marks(self) -> tuple[int, int]:
        """Where the engine's tables stand: (runs, attempts)."""
        (runs,) = next(iter(self._query("SELECT coalesce(max(rowid), 0) FROM runs")))
        (attempts,) = next(iter(self._query("SELECT coalesce(max(n), 0) FROM attempts")))
        return runs, attempts

    def _query(self, sql: str, *values: Any) -> list[Any]:
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)) as db:
            return db.execute(sql, values).fetchall()

    def memory(self) -> dict[str, int]:
        return {name.rpartition("-")[0]: child.rss_bytes() for name, child in self.services.items()}

    def down(self) -> None:
        for child in (*self.services.values(), self.engine):
            child.kill()
        self.offsets.close()

    def _environment(self) -> dict[str, str]:
        return {
            "HEADGATE_KAFKA__BOOTSTRAP": self.cluster.bootstrap,
            "HEADGATE_KAFKA__PREFIX": self.prefix,
            "HEADGATE_KAFKA__REPLICATION": str(self.cluster.replication),
            "HEADGATE_REGISTRY__URL": self.cluster.registry.url,
            "HEADGATE_HEALTH_HOST": "127.0.0.1",
            "HEADGATE_RUNNER__RETRY_BASE_SECONDS": "0.2",
            "HEADGATE_RUNNER__RETRY_CAP_SECONDS": "2",
            "HEADGATE_EGRESS_ALLOW": '["127.0.0.0/8"]',
            "PYTHONUNBUFFERED": "1",
            "FAILPOINT": "",
            **SECRETS,
        }


def clockwork(engine_url: str) -> dict[str, Any]:
    """A trigger for each second."""
    body = {"token": "slot {{ event.data.slot }}"}
    schedule = {"every": "1s", "catch_up": "all"}
    return {
        "apiVersion": "headgate/v1",
        "kind": "Trigger",
        "metadata": {"name": CRON},
        "sources": [{"name": CRON, "provider": "cron", "schedule": schedule}],
        "action": {"http": {"url": f"{engine_url}/runs", "body": body, "timeout": "3s"}},
        "policy": {"retry": {"attempts": 30}},
    }


def documents(
    engine_url: str, *, sources: Sequence[Mapping[str, Any]] = (), **more: Any
) -> list[dict[str, Any]]:
    """The trigger under test, on a GitHub webhook, a generic one and what other programs produce."""
    default = [
        {
            "name": "gh",
            "provider": "github-webhook",
            "config": {"secrets": [{"env": "CHAOS_GITHUB_SECRET"}]},
        },
        {
            "name": "plain",
            "provider": "generic-webhook",
            "config": {
                "secrets": [{"env": "CHAOS_GENERIC_SECRET"}],
                "hmac": {"header": "X-Signature", "prefix": "sha256="},
                "event_id_header": "X-Event-Id",
            },
        },
        {"provider": "events"},
    ]
    body = {"token": "{{ event.data.token }}", "refuse": "{{ event.data.refuse | default(false) }}"}
    return [
        {
            "apiVersion": "headgate/v1",
            "kind": "Trigger",
            "metadata": {"name": TRIGGER},
            "sources": list(sources) or default,
            "when": "event.data.grade > 2",
            "action": {"http": {"url": f"{engine_url}/runs", "body": body, "timeout": "3s"}},
            "policy": {"retry": {"attempts": 30}},
            **more,
        }
    ]

"""Kafka, registry, topics, schemas and services as one thing that starts, is kept running, and stops."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.cli.dev import plan, probe
from headgate.cli.dev.folder import Folder
from headgate.cli.dev.keeper import Keeper, Pace
from headgate.cli.dev.plan import HOST, Options
from headgate.cli.dev.screen import Screen
from headgate.common.embedded.kafka import Kafka
from headgate.common.embedded.process import Process
from headgate.common.embedded.registry import API, SchemaRegistry
from headgate.common.errors import Misconfigured, Unreachable

if TYPE_CHECKING:
    from headgate.common.settings import ServiceSettings

SERVICE_STOP_SECONDS = 45.0
"""The runner takes up to 30 s to finish what it began."""

SERVER_STOP_SECONDS = 15.0
INSTALL_SECONDS = 60.0
REGISTRY_SECONDS = 15.0


class Stack:
    """Built and started by the one who owns the folder."""

    def __init__(self, options: Options, folder: Folder, screen: Screen, pace: Pace | None = None) -> None:
        """Downloads what is missing; starts nothing."""
        self.options, self._folder, self._screen, self._pace = options, folder, screen, pace
        self.bootstrap = options.bootstrap or f"{HOST}:{options.kafka_port}"
        self.registry = options.registry or f"http://{HOST}:{options.registry_port}{API}"
        self.services = plan.services(options, self.bootstrap, self.registry)
        self.settings()  # Misconfigured now, not when half of it runs
        self._started_at = datetime.now(UTC)
        self._kafka = None
        self._servers: list[Keeper] = []
        self._service_keepers: list[Keeper] = []
        self._tasks: list[asyncio.Task[None]] = []
        if options.bootstrap is None:
            self._kafka = Kafka(options.directory / "kafka", ports=[options.kafka_port], logs=options.logs)
        if options.registry is None:
            server = SchemaRegistry(
                options.directory / "registry", port=options.registry_port, logs=options.logs
            )
            answers = probe.http(options.registry_port, f"{API}/subjects")
            self._servers.append(self._keeper(server.process, answers, self.registry))

    @property
    def dev_file(self) -> Path:
        return self._folder.dev_file

    @property
    def webhooks(self) -> list[str]:
        ports = [service.webhook_port for service in self.services]
        return [f"http://{HOST}:{port}" for port in ports if port is not None]

    async def start(self, seconds: float | None = None) -> None:
        """Return when every part was ready once. Whatever ends meanwhile is started again; Unreachable
        when that goes on for longer than the time, if one is given."""
        try:
            async with asyncio.timeout(seconds):
                await self._start()
        except TimeoutError:
            keepers = [*self._servers, *self._service_keepers]
            waiting = [one for one in keepers if not one.ready.is_set()]
            told = "; ".join(f"{one.name} ({one.wrong}, log {one.process.log})" for one in waiting)
            raise Unreachable(
                f"not everything was ready within {seconds:.0f} s: {told or 'topics'}"
            ) from None

    async def _start(self) -> None:
        self._keep(self._servers)
        if self._kafka is not None:
            await asyncio.to_thread(self._kafka.prepare)
            broker = self._kafka.brokers[0]
            keeper = self._keeper(broker.process, probe.listens(broker.node.port), self.bootstrap)
            self._servers.append(keeper)
            self._keep([keeper])
        for keeper in self._servers:
            await keeper.ready.wait()
        await self._install()
        self._service_keepers = [self._service(service) for service in self.services]
        self._keep(self._service_keepers)
        for keeper in self._service_keepers:
            await keeper.ready.wait()

    async def stop(self) -> None:
        """Services first, so that they can finish and commit; bounded, then by force."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await end([keeper.process for keeper in self._service_keepers], SERVICE_STOP_SECONDS)
        await end([keeper.process for keeper in self._servers], SERVER_STOP_SECONDS)

    def kill(self) -> None:
        """Everything, now."""
        for keeper in [*self._service_keepers, *self._servers]:
            keeper.process.kill()

    def facts(self) -> dict[str, Any]:
        """What dev.json says."""
        return {
            "pid": os.getpid(),
            "started_at": self._started_at.isoformat(timespec="seconds"),
            "bootstrap": self.bootstrap,
            "registry": self.registry,
            "prefix": self.options.prefix,
            "webhooks": self.webhooks,
            "servers": {keeper.name: _facts(keeper) for keeper in self._servers},
            "services": {
                keeper.name: {**_facts(keeper), "health": f"http://{HOST}:{service.health_port}"}
                for keeper, service in zip(self._service_keepers, self.services, strict=False)
            },
        }

    def settings(self) -> ServiceSettings:
        """This stack as our own clients know it; credentials of a given Kafka come from the environment."""
        from headgate.common.settings import ServiceSettings

        return ServiceSettings(
            kafka={"bootstrap": self.bootstrap, "prefix": self.options.prefix},
            registry={"url": self.registry, "timeout_seconds": REGISTRY_SECONDS},
            state_dir=self.options.directory / "state",
        )

    def _service(self, service: plan.Service) -> Keeper:
        process = Process(
            service.name,
            [sys.executable, "-m", service.kind.module],
            log=self.options.logs / f"{service.name}.log",
            env=service.env,
        )
        address = f"http://{HOST}:{service.webhook_port}" if service.webhook_port else ""
        return self._keeper(process, probe.http(service.health_port), address)

    def _keeper(self, process: Process, ask: probe.Probe, address: str) -> Keeper:
        return Keeper(process, ask, self._screen.say, address=address, changed=self._publish, pace=self._pace)

    def _keep(self, keepers: Sequence[Keeper]) -> None:
        self._tasks += [asyncio.create_task(keeper.run(), name=keeper.name) for keeper in keepers]

    def _publish(self) -> None:
        try:
            self._folder.publish(self.facts())
        except OSError as problem:  # a full disk: what runs goes on
            self._screen.say(self.dev_file.name, f"not written: {problem.strerror}")

    async def _install(self) -> None:
        """Topics and schemas as this version declares them; a server that wavers gets a minute."""
        deadline, told = time.monotonic() + INSTALL_SECONDS, ""
        while True:
            try:
                self._screen.say("topics", await asyncio.to_thread(self._install_once))
                return
            except Unreachable as problem:
                if time.monotonic() > deadline:
                    raise
                if told != str(problem):
                    told = str(problem)
                    self._screen.say("topics", f"waiting up to {INSTALL_SECONDS:.0f} s: {told}")
                await asyncio.sleep(0.2)

    def _install_once(self) -> str:
        from headgate.common.registry import Registry
        from headgate.common.topicadmin import TopicAdmin

        settings = self.settings()
        topics = settings.kafka.topics()
        found = TopicAdmin(settings.kafka).apply(topics)
        problems = [f"{one.topic}: {one.detail}" for one in found if one.is_problem]
        if problems:
            raise Misconfigured("; ".join(problems))
        registry = Registry(settings.registry, settings.schema_cache)
        try:
            schemas = registry.install(topics)
        finally:
            registry.close()
        created = sum(one.state == "created" for one in found)
        return f"{len(found)} as declared ({created} new), {len(schemas)} schemas registered"


async def end(processes: Sequence[Process], seconds: float) -> None:
    """SIGTERM to all, SIGKILL to whoever is left when the time is up."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + seconds
    while any(process.running for process in processes) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
    for process in processes:
        process.kill()


def _facts(keeper: Keeper) -> dict[str, Any]:
    process = keeper.process
    return {
        "pid": process.pid if process.running else None,
        "restarts": keeper.restarts,
        "log": str(process.log),
    }

"""Memory of all of `headgate dev`: idle, and after a million webhooks that went through every service."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.bench import latency, webhook
from tests.bench.load import SECRET
from tests.bench.results import Result, Target
from tests.bench.world import Prefix, World

from headgate.common.embedded.ports import can_listen, free, is_open
from headgate.common.embedded.process import Process
from headgate.common.registry import Codec, Registry
from headgate.common.settings import KafkaSettings, RegistrySettings
from headgate.common.topics import Topics

NAME = "memory"
SERVICE_MB = 150.0
TOTAL_MB = 1800.0
START_SECONDS = 300
SETTLE_SECONDS = 10
STALLED_SECONDS = 120
MB = 1_000_000


def run(world: World, events: int) -> Result:
    """Kafka and registry are `headgate dev`'s own here: they count."""
    result = Result(NAME, f"RSS in MB of headgate dev: idle, highest, and after {events:,} webhooks")
    with world.all_cores(), _dev(world) as (process, folder), _engine(world) as engine:
        facts = _facts(folder)
        prefix = _prefix(facts, folder)
        prefix.put(latency.TRIGGER % engine)
        time.sleep(SETTLE_SECONDS)
        idle, table_idle = _rss(process, facts), Table.of(folder, facts)
        webhook_port = int(facts["webhooks"][0].rpartition(":")[2])
        highest = _through(world, prefix, process, facts, webhook_port, events)
        time.sleep(SETTLE_SECONDS)
        after = _rss(process, _facts(folder))
        table = Table.of(folder, facts)
    for name in idle:
        result.add(name, {"idle": idle[name], "highest": highest[name], "after": after[name]})
    services = [name for name in idle if name in facts["services"]]
    for name in services:
        worst = max(idle[name], after[name])
        if name == "processor":
            worst = max(idle[name] - table_idle.in_memory, after[name] - table.in_memory)
            name = "processor, its table apart"
        result.targets.append(
            Target(f"{name}, idle and after", worst, SERVICE_MB, at_least=False, unit=" MB")
        )
    total = max(idle["all"], after["all"])
    result.targets.append(Target("all of headgate dev", total, TOTAL_MB, at_least=False, unit=" MB"))
    result.notes.append(str(table))
    return result


@contextlib.contextmanager
def _dev(world: World) -> Iterator[tuple[Process, Path]]:
    folder = world.directory / "dev"
    kafka, registry, hooks = free(3)
    health = next(base for base in free(200) if all(can_listen(base + step) for step in range(1, 6)))
    ports = {"kafka": kafka, "registry": registry, "webhook": hooks, "health": health}
    words = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    process = world.start(
        "headgate-dev",
        [sys.executable, "-m", "headgate.cli", "dev", "--dir", str(folder), *words],
        {"BENCH_SECRET": SECRET.decode(), "HEADGATE_LOG_LEVEL": "warning"},
    )
    try:
        process.wait_ready(lambda: _up(folder), START_SECONDS)
        yield process, folder
    finally:
        process.stop(60)


@contextlib.contextmanager
def _engine(world: World) -> Iterator[int]:
    [port] = free()
    process = world.start("engine", [sys.executable, "-m", "tests.bench.engine", str(port)], {})
    try:
        process.wait_ready(lambda: is_open(port), 30)
        yield port
    finally:
        process.stop()


def _facts(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "dev.json").read_text(encoding="utf-8"))
    return facts


def _up(folder: Path) -> bool:
    """Every service that dev.json names is ready."""
    try:
        services = _facts(folder)["services"].values()
        return len(services) >= 5 and all(
            httpx.get(f"{one['health']}/readyz", timeout=2).status_code == 200 for one in services
        )
    except (OSError, ValueError, KeyError, httpx.HTTPError):
        return False


def _prefix(facts: dict[str, Any], folder: Path) -> Prefix:
    kafka = KafkaSettings(bootstrap=facts["bootstrap"], prefix=facts["prefix"])
    registry = RegistrySettings(url=facts["registry"], timeout_seconds=30)
    topics = Topics(prefix=kafka.prefix)
    return Prefix(kafka, registry, topics, Codec(Registry(registry), topics), folder)


def _rss(process: Process, facts: dict[str, Any]) -> dict[str, float]:
    """Megabytes by part, and of everything; pages that several share count for each of them."""
    parts = {
        name: psutil.Process(one["pid"]).memory_info().rss / MB
        for name, one in {**facts["servers"], **facts["services"]}.items()
    }
    parts["supervisor"] = psutil.Process(process.pid).memory_info().rss / MB
    return {**parts, "all": sum(parts.values())}


def _through(
    world: World, prefix: Prefix, process: Process, facts: dict[str, Any], port: int, events: int
) -> dict[str, float]:
    """Send them all and wait until each is decided and run; returns the highest RSS met."""
    here = World(prefix.kafka.bootstrap, prefix.registry.url, world.directory)
    load = world.start(
        "load",
        [
            sys.executable,
            "-m",
            "tests.bench.load",
            str(port),
            webhook.PATH,
            "--count",
            str(events),
            "--warmup",
            "0",
        ],
        {},
    )
    highest = _rss(process, facts)
    decided, runs, moved = 0, 0, time.monotonic()
    while True:
        time.sleep(1)
        for name, megabytes in _rss(process, facts).items():
            highest[name] = max(highest[name], megabytes)
        before = (decided, runs)
        decided = here.count(prefix.topics, prefix.topics.decisions)
        runs = here.count(prefix.topics, prefix.topics.runs)
        if load.exit_code == 0 and decided >= events and runs >= events:
            return highest
        if decided + runs > sum(before):
            moved = time.monotonic()
        if load.exit_code not in (None, 0) or time.monotonic() - moved > STALLED_SECONDS:
            raise RuntimeError(
                f"of {events} webhooks {decided} were decided and {runs} run; load: {load.ending}\n"
                + "\n".join(load.tail())
            )


@dataclass(frozen=True)
class Table:
    """What the processor's table holds; megabytes in memory (which its RSS counts too) and on disk."""

    entries: float
    in_memory: float
    on_disk: float

    @classmethod
    def of(cls, folder: Path, facts: dict[str, Any]) -> Table:
        files = [path for path in (folder / "state").rglob("*") if path.is_file()]
        metrics = httpx.get(f"{facts['services']['processor']['health']}/metrics", timeout=10).text
        lines = dict(
            line.rsplit(" ", 1) for line in metrics.splitlines() if line and not line.startswith("#")
        )
        return cls(
            float(lines["headgate_processor_table_entries"]),
            float(lines["headgate_processor_table_memory_bytes"]) / MB,
            sum(path.stat().st_size for path in files) / MB,
        )

    def __str__(self) -> str:
        return (
            f"the processor's table: {self.entries:,.0f} fingerprints, {self.in_memory:,.1f} MB in memory, "
            f"{self.on_disk:,.1f} MB on disk"
        )

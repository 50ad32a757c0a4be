"""Webhooks a second: ingest against bare aiohttp with a producer. Signed, 1 kB, answered on acks=all."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.bench.load import SECRET
from tests.bench.results import Numbers, Result, Target, interleaved
from tests.bench.world import Prefix, World, cpu_seconds

from headgate.common.embedded.ports import free, is_open
from headgate.common.embedded.process import Process

NAME = "webhook"
CONNECTIONS = 64
TARGET = 0.7
PATH = "/webhooks/github/bench-hook"
TRIGGER = """
apiVersion: headgate/v1
kind: Trigger
metadata: {name: bench}
sources: [{provider: github-webhook, name: bench-hook, config: {secrets: [{env: BENCH_SECRET}]}}]
when: event.data.severity == "high" && "a" in event.data.labels
action: {local: {}}
"""

Contender = Callable[[World, Prefix, int], contextlib.AbstractContextManager[Process]]


def run(world: World, rounds: int, quick: bool) -> Result:
    result = Result(
        NAME, f"POST 1 kB, signed, 202 after acks=all, {CONNECTIONS} connections, server on one core"
    )
    seconds = 4 if quick else 10
    ours, bare = "headgate.ingest_webhook", "bare aiohttp + producer"
    interleaved(
        rounds,
        {
            ours: partial(_measure, world, ingest, seconds),
            bare: partial(_measure, world, _bare, seconds),
        },
        result,
    )
    result.targets.append(
        Target("requests a second against bare aiohttp", result.ratio("requests/s", ours, bare), TARGET)
    )
    return result


@contextlib.contextmanager
def ingest(world: World, prefix: Prefix, port: int, *, pinned: bool = True) -> Iterator[Process]:
    more = {"HEADGATE_WEBHOOK_PORT": str(port), "BENCH_SECRET": SECRET.decode()}
    with world.service("ingest_webhook", prefix, pinned=pinned, **more) as process:
        yield process


@contextlib.contextmanager
def _bare(world: World, prefix: Prefix, port: int) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.bench.baselines.webhook", str(port)]
    process = world.start("bare-webhook", command, prefix.env(), pinned=True)
    try:
        process.wait_ready(lambda: is_open(port), 30)
        yield process
    finally:
        process.stop(5)


def _measure(world: World, contender: Contender, seconds: int) -> Numbers:
    with world.prefix() as prefix:
        prefix.put(TRIGGER)
        port = free()[0]
        with contender(world, prefix, port) as process:
            send(port, seconds=1, connections=CONNECTIONS)
            before = cpu_seconds(process.pid)
            answer = send(port, seconds=seconds, connections=CONNECTIONS, warmup=0)
            used = cpu_seconds(process.pid) - before
        stored = world.count(prefix.topics, prefix.topics.raw)
    if set(answer["statuses"]) != {"202"} or answer["lost"]:
        raise RuntimeError(f"not every webhook was taken: {answer}")
    if stored < answer["sent"]:
        raise RuntimeError(f"{answer['sent']} answered 202, {stored} stored")
    return {
        "requests/s": answer["requests/s"],
        "p50 ms": answer["p50"],
        "p99 ms": answer["p99"],
        "cpu us/request": used / answer["sent"] * 1e6,
    }


def send(port: int, **options: float) -> dict[str, Any]:
    """One run of the load client; options as it has them."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.load", str(port), PATH, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the load client failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer

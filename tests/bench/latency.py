"""From webhook to run at 200 events a second, against the bare produce-consume chain."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import httpx
from tests.bench import webhook
from tests.bench.results import Numbers, Result, Target, interleaved
from tests.bench.world import Prefix, World

from headgate.common.embedded.ports import free, is_open

NAME = "latency"
RATE = 200
TARGET = 4.0
ARRIVAL_SECONDS = 30
WARM_SECONDS = 15
TRIGGER = """
apiVersion: headgate/v1
kind: Trigger
metadata: {name: bench}
sources: [{provider: github-webhook, name: bench-hook, config: {secrets: [{env: BENCH_SECRET}]}}]
when: event.data.number > 0 && "a" in event.data.labels
action: {http: {url: "http://127.0.0.1:%d/runs", body: {sent: "{{ event.data.sent }}"}}}
"""


def run(world: World, rounds: int, quick: bool) -> Result:
    result = Result(
        NAME, f"milliseconds from webhook to run at {RATE} events/s; webhook, processor, runner, engine"
    )
    seconds = 10 if quick else 30
    ours, bare = "webhook to run", "bare chain"
    with world.all_cores(), _headgate(world) as (port, engine), _chain(world) as prefix:
        # Every connection made, every group joined, and the broker's code for their requests compiled.
        _through(port, engine, WARM_SECONDS)
        _bare(prefix, WARM_SECONDS)
        interleaved(
            rounds,
            {ours: partial(_through, port, engine, seconds), bare: partial(_bare, prefix, seconds)},
            result,
        )
    result.targets.append(
        Target("p99 against the bare chain", result.ratio("p99 ms", ours, bare), TARGET, at_least=False)
    )
    return result


@contextlib.contextmanager
def _headgate(world: World) -> Iterator[tuple[int, int]]:
    """Three services and an engine; yields the ports of webhooks and engine."""
    port, engine = free(2)
    with contextlib.ExitStack() as stack:
        prefix = stack.enter_context(world.prefix())
        prefix.put(TRIGGER % engine)
        process = world.start("engine", [sys.executable, "-m", "tests.bench.engine", str(engine)], {})
        stack.callback(process.stop)
        process.wait_ready(lambda: is_open(engine), 30)
        stack.enter_context(world.service("runner", prefix))
        stack.enter_context(world.service("processor", prefix))
        stack.enter_context(webhook.ingest(world, prefix, port, pinned=False))
        yield port, engine


@contextlib.contextmanager
def _chain(world: World) -> Iterator[Prefix]:
    with world.prefix() as prefix:
        command = [sys.executable, "-m", "tests.bench.baselines.chain", "middle"]
        process = world.start("chain", command, prefix.env())
        try:
            yield prefix
        finally:
            process.stop(5)


def _through(port: int, engine: int, seconds: int) -> Numbers:
    answer = webhook.send(port, seconds=seconds, rate=RATE, warmup=0)
    if set(answer["statuses"]) != {"202"}:
        raise RuntimeError(f"not every webhook was taken: {answer}")
    ages: list[float] = []
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while len(ages) < answer["sent"]:
        ages += httpx.get(f"http://127.0.0.1:{engine}/taken", timeout=10).json()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{answer['sent']} events were taken, {len(ages)} runs arrived")
        time.sleep(0.05)
    return _percentiles(ages)


def _bare(prefix: Prefix, seconds: int) -> Numbers:
    command = [sys.executable, "-m", "tests.bench.baselines.chain", "ends"]
    done = subprocess.run(
        [*command, "--rate", str(RATE), "--seconds", str(seconds)],
        env={**prefix.env(), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return _percentiles(json.loads(done.stdout))


def _percentiles(values: list[float]) -> Numbers:
    values = sorted(values)
    return {
        "p50 ms": values[len(values) // 2],
        "p99 ms": values[int(len(values) * 0.99)],
        "max ms": values[-1],
        "events": float(len(values)),
    }

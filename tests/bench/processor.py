"""Events a second on one core: the processor, a plain Faust agent with the same job, a bare loop."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.bench import events
from tests.bench.events import Load
from tests.bench.results import Numbers, Result, Target, interleaved
from tests.bench.world import Prefix, World, cpu_seconds

from headgate.common.embedded.ports import free
from headgate.common.embedded.process import Process

NAME = "processor"
SAMPLE_SECONDS = 0.05
STALLED_SECONDS = 60
TARGET = 5.0


def run(world: World, rounds: int, quick: bool) -> Result:
    scale = 1 if quick else 3
    result = Result(
        NAME,
        "events a second, one core; 600 B Avro, 10 % repeats, CEL, 2 of 5 forwarded, acks=all, changelog",
    )
    interleaved(
        rounds,
        {
            "headgate.processor": partial(_measure, world, _processor, 100_000 * scale, decisions=True),
            "plain Faust agent": partial(_measure, world, _faust, 12_000 * scale, decisions=False),
            "bare confluent-kafka loop": partial(_measure, world, _loop, 100_000 * scale, decisions=False),
        },
        result,
    )
    ours = "headgate.processor"
    result.targets.append(
        Target("against the plain Faust agent", result.ratio("events/s", ours, "plain Faust agent"), TARGET)
    )
    share = result.ratio("events/s", ours, "bare confluent-kafka loop")
    cpu = result.ratio("cpu us/event", "plain Faust agent", ours)
    result.notes.append(f"{share:.2f} of the bare loop's speed; {cpu:.1f} times less CPU an event than Faust")
    result.notes.append("only the processor writes a decision record for each event")
    return result


@contextlib.contextmanager
def _processor(world: World, prefix: Prefix) -> Iterator[Process]:
    env = prefix.env(HEADGATE_HEALTH_PORT=str(free()[0]))
    with _child(world, "processor", [sys.executable, "-m", "headgate.processor"], env) as process:
        yield process


@contextlib.contextmanager
def _faust(world: World, prefix: Prefix) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.bench.baselines.faust_agent", "worker", "-l", "warn"]
    env = {**prefix.env(), "BENCH_WEB_PORT": str(free()[0])}
    with _child(world, "faust", [*command, "--web-port", env["BENCH_WEB_PORT"]], env) as process:
        yield process


@contextlib.contextmanager
def _loop(world: World, prefix: Prefix) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.bench.baselines.kafka_loop"]
    with _child(world, "loop", command, prefix.env()) as process:
        yield process


@contextlib.contextmanager
def _child(world: World, name: str, command: list[str], env: dict[str, str]) -> Iterator[Process]:
    process = world.start(name, command, env, pinned=True)
    try:
        yield process
    finally:
        process.stop(20)


def _measure(
    world: World,
    contender: Callable[[World, Prefix], contextlib.AbstractContextManager[Process]],
    count: int,
    *,
    decisions: bool,
) -> Numbers:
    """The topic is full before the contender starts. Its clock runs from its first output to its last, so that
    imports, joining the group and recovery are not counted."""
    with world.prefix() as prefix:
        prefix.put(events.TRIGGER)
        load = events.fill(prefix, count)
        with contender(world, prefix) as process:
            return _watch(world, prefix, process, load, decisions)


def _watch(world: World, prefix: Prefix, process: Process, load: Load, decisions: bool) -> Numbers:
    names = [prefix.topics.matched] + ([prefix.topics.decisions] if decisions else [])
    expected = load.wanted + (load.events if decisions else 0)
    began = moved = time.monotonic()
    first: tuple[float, int, float] | None = None
    seen = 0
    while seen < expected:
        time.sleep(SAMPLE_SECONDS)
        now, before = time.monotonic(), seen
        seen = world.count(prefix.topics, *names)
        if seen and first is None:
            first = (now, seen, cpu_seconds(process.pid))
        if seen > before:
            moved = now
        elif now - moved > STALLED_SECONDS or not process.running:
            raise RuntimeError(
                f"{process.name} stands still at {seen} of {expected} records after {now - began:.0f} s:\n"
                + "\n".join(process.tail(30))
            )
    if first is None:
        raise RuntimeError(f"{process.name} wrote everything between two looks; use more events")
    done = load.events * (1 - first[1] / expected)
    seconds = time.monotonic() - first[0]
    return {
        "events/s": done / seconds,
        "cpu us/event": (cpu_seconds(process.pid) - first[2]) / done * 1e6,
        "surplus": float(seen - expected),
    }

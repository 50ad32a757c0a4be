"""F9: the disk is full: under the processor's state, or under the broker's log."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.chaos.scenario import Round, Scenario, Skipped
from tests.harness.processes import Child

STATE_SIZE = "48m"
LOG_SIZE = "400m"
FULL_SECONDS = 8.0
REPLICAS = {"ingest": 2, "processor": 1, "runner": 2}


def supports(_: Path) -> None:
    """A small file system of our own is needed, and only root may mount one."""
    if os.geteuid() != 0:
        raise Skipped("mounting a small tmpfs needs root")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Skipped(f"this machine does not let us mount a tmpfs: {done.stderr.strip()}")
        subprocess.run(["umount", folder], check=True)


class SmallDisk:
    """A tmpfs that can be filled and emptied."""

    def __init__(self, path: Path, size: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)

    def fill(self) -> None:
        """Leave not one page."""
        with (self.path / "ballast").open("ab", buffering=0) as out:
            for size in (65_536, 4096):
                block = b"x" * size
                try:
                    while True:
                        out.write(block)
                except OSError:
                    continue

    def relieve(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


async def disturb(round_: Round) -> None:
    """The processor's disk in odd rounds, the broker's in even ones."""
    await (under_the_processor if round_.seed % 2 else under_the_broker)(round_)


async def under_the_processor(round_: Round) -> None:
    """The processor moves to a small disk, the disk fills, the processor ends and ends again; space returns, and it
    goes on."""
    (victim,) = round_.services("processor")
    disk = SmallDisk(round_.pipeline.home / "small-disk", STATE_SIZE)
    try:
        with round_.nemesis.holding(victim):
            await asyncio.to_thread(victim.stop)
            victim.start(HEADGATE_STATE_DIR=str(disk.path / "state"))
        await round_.pipeline.ready([victim.name])
        disk.fill()
        round_.nemesis.note("disk full")
        with round_.nemesis.holding(victim):
            await asyncio.to_thread(victim.kill)
            shutil.rmtree(disk.path / "state")
            await starts_on_a_full_disk(round_, victim, disk)
            disk.relieve()
            round_.nemesis.note("space again")
            await asyncio.to_thread(victim.kill)
            victim.start(HEADGATE_STATE_DIR=str(disk.path / "state"))
        await round_.pipeline.ready([victim.name])
    finally:
        with round_.nemesis.holding(victim):
            await asyncio.to_thread(victim.kill)
            disk.remove()
            victim.start()
    await round_.pipeline.ready([victim.name])


async def starts_on_a_full_disk(round_: Round, victim: Child, disk: SmallDisk) -> None:
    """With nothing left to free. Started again whenever it ends, which it may, but never as if all were well."""
    disk.fill()
    ends, until = 0, time.monotonic() + FULL_SECONDS
    while time.monotonic() < until or not ends:
        if not victim.running:
            ends += victim.starts > 0 and victim.exit_code not in (None, -9)
            if victim.exit_code == 0:
                round_.broken("ended as if all were well", f"{victim.name} ended with 0 on a full disk")
            victim.start(HEADGATE_STATE_DIR=str(disk.path / "state"))
        disk.fill()
        if time.monotonic() > until + FULL_SECONDS:
            if await round_.pipeline.is_ready(victim.name):
                round_.broken("a full disk was not felt", f"{victim.name} is ready")
            break
        await asyncio.sleep(0.05)
    round_.figures["ends_while_full"] = ends


async def under_the_broker(round_: Round) -> None:
    """The broker's log moves to a small disk and fills it; the broker may die of it, and nothing stored is lost."""
    kafka = round_.pipeline.cluster.kafka
    (broker,) = kafka.brokers
    data = kafka.directory / "broker-1" / "data"
    aside = data.with_name("aside")
    await asyncio.to_thread(broker.process.kill)
    data.rename(aside)
    disk = SmallDisk(data, LOG_SIZE)
    try:
        await asyncio.to_thread(copy, aside, data)
        await restart_broker(round_)
        await asyncio.sleep(3)
        round_.nemesis.note("disk full")
        for _ in range(int(FULL_SECONDS / 0.2)):
            disk.fill()
            await asyncio.sleep(0.2)
        round_.figures["broker_while_full"] = broker.process.ending
        disk.relieve()
        round_.nemesis.note("space again")
        await asyncio.to_thread(broker.process.kill)
        await restart_broker(round_)
        await asyncio.sleep(2)
    finally:
        await asyncio.to_thread(broker.process.kill)
        shutil.rmtree(aside)
        await asyncio.to_thread(copy, data, aside)
        disk.remove()
        data.rmdir()
        aside.rename(data)
        await restart_broker(round_)


def copy(source: Path, target: Path) -> None:
    """With the holes of Kafka's indexes left as holes."""
    target.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", f"{source}/.", str(target)], check=True)


async def restart_broker(round_: Round) -> None:
    round_.pipeline.cluster.kafka.start()
    await asyncio.to_thread(round_.pipeline.cluster.kafka.wait_ready, 90)


SCENARIO = Scenario("F9", "the disk is full", disturb, own_cluster=True, replicas=REPLICAS, supports=supports)

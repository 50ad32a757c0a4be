"""F9: the disk is full: under the processor's state, or under the broker's log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.chaos.scenario import Round, Scenario, Skipped
from tests.harness.processes import Child

SIZE = "48m"
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

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)], check=True)

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
    """The processor moves to a small disk, the disk fills, the processor ends and ends again; space returns, and it
    goes on."""
    (victim,) = round_.services("processor")
    disk = SmallDisk(round_.pipeline.home / "small-disk")
    try:
        with round_.nemesis.holding(victim):
            await asyncio.to_thread(victim.stop)
            victim.start(HEADGATE_STATE_DIR=str(disk.path / "state"))
        await round_.pipeline.ready([victim.name])
        disk.fill()
        round_.nemesis.note("disk full")
        with round_.nemesis.holding(victim):
            await asyncio.to_thread(victim.kill)
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
    """Started again whenever it ends. What it frees is filled up at once; it may end, and never as if all were well."""
    ends, until = 0, time.monotonic() + FULL_SECONDS
    while time.monotonic() < until or not ends:
        if not victim.running:
            ends += victim.starts > 0 and victim.exit_code not in (None, -9)
            if victim.exit_code == 0:
                round_.broken("ended as if all were well", f"{victim.name} ended with 0 on a full disk")
            victim.start(HEADGATE_STATE_DIR=str(disk.path / "state"))
        disk.fill()
        if time.monotonic() > until + FULL_SECONDS:
            round_.broken("a full disk was not felt", f"{victim.name} did not end")
            break
        await asyncio.sleep(0.05)
    round_.figures["ends_while_full"] = ends


SCENARIO = Scenario("F9", "the disk is full", disturb, replicas=REPLICAS, supports=supports)

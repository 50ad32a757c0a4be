"""F10: the processor's local state is deleted, corrupted, or an old copy comes back."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

from tests.chaos.scenario import Round, Scenario

REPLICAS = {"ingest": 2, "processor": 1, "runner": 2}
"""One processor: its state is the whole table."""


async def disturb(round_: Round) -> None:
    """Whatever lies on the disk, the decisions are the same: the changelog is the table, the disk a copy."""
    (victim,) = round_.services("processor")
    state = round_.pipeline.home / "state" / victim.name
    copy = round_.pipeline.home / "state-copy"
    await round_.load.enough.wait()
    for harm in round_.dice.sample([deleted, corrupted, stale], 3):
        with round_.nemesis.holding(victim):
            round_.nemesis.note("state", harm=harm.__name__)
            await harm(round_, state, copy)
        await round_.pipeline.ready([victim.name])


async def deleted(round_: Round, state: Path, _: Path) -> None:
    (victim,) = round_.services("processor")
    await asyncio.to_thread(victim.kill)
    shutil.rmtree(state)
    victim.start()


async def corrupted(round_: Round, state: Path, _: Path) -> None:
    """Bytes flipped in the middle of the table's files, which a clean stop has written."""
    (victim,) = round_.services("processor")
    await asyncio.to_thread(victim.stop)
    if not await asyncio.to_thread(flip_bytes, state, round_.dice):
        round_.broken("nothing to corrupt", f"no .sst file in {state}")
    victim.start()


def flip_bytes(state: Path, dice: random.Random) -> int:
    """How many files have other bytes now."""
    files = sorted(path for path in state.rglob("*.sst") if path.stat().st_size)
    for path in files:
        content = bytearray(path.read_bytes())
        for at in dice.sample(range(len(content)), min(16, len(content))):
            content[at] ^= 0xFF
        path.write_bytes(content)
    return len(files)


async def stale(round_: Round, state: Path, copy: Path) -> None:
    """A copy of the state, taken while it ran, comes back after more was decided."""
    (victim,) = round_.services("processor")
    await asyncio.to_thread(victim.kill)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(state, copy)
    victim.start()
    await round_.pipeline.ready([victim.name])
    await asyncio.sleep(2)
    await asyncio.to_thread(victim.kill)
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    victim.start()


SCENARIO = Scenario("F10", "local state deleted, corrupted, stale", disturb, replicas=REPLICAS)

"""A processor that the group gave up, and that wakes again: it goes on by itself, and soon."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

ROUNDS = 4
"""What used to go wrong was a race that about every second round lost."""
SOON_SECONDS = 30
"""Far below the watchdog's patience, which would end the process and hide a stall."""


def _members(world: Any, group: str) -> int:
    admin = AdminClient(world.stack.kafka.librdkafka())
    return len(admin.describe_consumer_groups([group])[group].result(15).members)


def _decided(world: Any, ids: frozenset[str]) -> bool:
    return ids <= {decision["event_id"] for decision in world.decisions()}


def test_a_zombie_that_wakes_goes_on_with_what_came_meanwhile_without_a_restart(world: Any) -> None:
    world.trigger("t")
    processor = world.start().wait_ready()
    group = world.topics.processor_app
    done: set[str] = set()
    for number in range(ROUNDS):
        before = [world.event(f"{number}-before-{n}") for n in range(20)]
        meanwhile = [world.event(f"{number}-meanwhile-{n}") for n in range(20)]
        os.kill(processor.process.pid, signal.SIGSTOP)
        try:
            world.publish(*before)
            world.wait_until("the group has given the zombie up", lambda: _members(world, group) == 0)
            world.publish(*meanwhile)
        finally:
            os.kill(processor.process.pid, signal.SIGCONT)
        done |= {event["id"] for event in before + meanwhile}
        world.wait_until(
            f"round {number} is decided", partial(_decided, world, frozenset(done)), SOON_SECONDS
        )
    assert processor.process.poll() is None
    assert len({matched["run_id"] for matched in world.matched()}) == len(done)

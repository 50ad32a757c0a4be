"""A processor that comes back gets its partitions, whatever it is called by then, or it ends: it never sits there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.processor import worker
from headgate.processor.settings import Settings

pytestmark = pytest.mark.kafka


def called(host: str) -> str:
    return f"import socket\nsocket.gethostname = lambda: {host!r}"


@pytest.mark.parametrize("leave", ["stop", "kill"])
def test_an_instance_that_comes_back_under_another_host_name_goes_on(world: Any, leave: str) -> None:
    """As a container does that is made anew. Its group still knows the instance, and gives it what it had."""
    world.trigger("t")
    first = world.start(before=called("first"), INSTANCE_ID="processor-0").wait_ready()
    world.publish(world.event("a"))
    world.wait_decisions(1)
    getattr(first, leave)()
    world.start(before=called("second"), INSTANCE_ID="processor-0").wait_ready()
    world.publish(world.event("b"))
    world.wait_decisions(2)


def test_a_start_that_never_gets_its_partitions_ends_the_process_and_says_so(world: Any) -> None:
    refuse = (
        "from faust.assignor.partition_assignor import PartitionAssignor\n"
        "def refuse(*_): raise AssertionError('what was assigned is not believed')\n"
        "PartitionAssignor.on_assignment = refuse"
    )
    stuck = world.start(before=refuse, PROCESSOR__STALL_SECONDS="2", PROCESSOR__STALL_EXIT_SECONDS="5")
    world.wait_until("it says so", lambda: "waiting for partitions" in stuck.answer("readyz")[1])
    assert stuck.wait_exit() == 1
    assert "no progress: waiting for partitions" in stuck.log.read_text()


def test_variables_meant_for_others_change_nothing_of_what_faust_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Kubernetes service named `web` and a neighbour's Celery are enough to have them."""
    monkeypatch.setenv("WEB_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("BROKER_URL", "redis://10.0.0.2")
    monkeypatch.setenv("PROCESSING_GUARANTEE", "exactly_once")
    cluster: Any = type("NoCluster", (), {"barrier": None})
    conf = worker.new_app(Settings(), tmp_path, cluster).conf
    assert conf.broker[0].host == "127.0.0.1"
    assert conf.processing_guarantee.value == "at_least_once"

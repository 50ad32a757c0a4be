"""compose.yaml, as far as it can be judged without pulling an image."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OURS = {"ingest-webhook", "poller", "cron", "processor", "runner"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_services_start_only_after_the_topics_are_applied(compose: dict[str, Any]) -> None:
    for name in OURS:
        assert compose["services"][name]["depends_on"] == {
            "topics": {"condition": "service_completed_successfully"}
        }


def test_whatever_is_waited_for_exists_and_can_become_healthy(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in services
            if how["condition"] == "service_healthy":
                assert services[name]["healthcheck"]["test"]


def test_every_volume_is_declared_and_every_declared_one_used(compose: dict[str, Any]) -> None:
    used = {volume.split(":")[0] for one in compose["services"].values() for volume in one.get("volumes", [])}
    assert used == set(compose["volumes"])


def test_ports_are_open_on_loopback_only_and_no_two_are_the_same(compose: dict[str, Any]) -> None:
    ports = [port for one in compose["services"].values() for port in one.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_the_tools_come_only_when_asked_for(compose: dict[str, Any]) -> None:
    profiles = {name: one.get("profiles") for name, one in compose["services"].items()}
    assert {name for name, value in profiles.items() if value == ["tools"]} == {"kafka-ui", "akhq"}


def test_every_image_but_our_own_is_pinned_to_a_version(compose: dict[str, Any]) -> None:
    for one in compose["services"].values():
        tag = one["image"].rpartition(":")[2]
        assert tag == "dev" if "build" in one else tag[:1].isdigit() or tag.startswith("v")


def test_no_service_has_a_name_that_a_second_replica_would_share(compose: dict[str, Any]) -> None:
    """`--scale processor=2`: two members of one static name throw each other out of the group."""
    for one in compose["services"].values():
        assert "HEADGATE_INSTANCE_ID" not in one.get("environment", {})


def test_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed: its own reading of compose.yaml was NOT tested")
    subprocess.run(
        [docker, "compose", "--profile", "tools", "config", "--quiet"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )

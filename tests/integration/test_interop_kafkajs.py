"""kafkajs with Confluent's registry client, in Node: a reader that shares no code and no language with us."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

NPM = Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def script(node: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader beside its installed packages, as the lock file pins them."""
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json", ".npmrc", "read.mjs"):
        (folder / name).write_bytes((NPM / name).read_bytes())
    cli = node.parent / "npm"
    bundled = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = [str(node), str(bundled)] if bundled.exists() else [str(cli)]
    done = subprocess.run(
        [*npm, "ci", "--ignore-scripts", "--no-audit"],
        cwd=folder,
        env={**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        unreachable = any(
            word in done.stderr for word in ("ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "ETIMEDOUT")
        )
        assert unreachable, done.stderr
        pytest.skip(f"reading with kafkajs was NOT tested: the npm registry is not reachable\n{done.stderr}")
    return folder / "read.mjs"


@pytest.fixture(scope="module")
def records(told: Any, node: Path, script: Path) -> dict[str, list[dict[str, Any]]]:
    """What kafkajs read, by topic."""
    topics = [told.topics.raw, told.topics.matched, told.topics.decisions]
    done = subprocess.run(
        [node, script, told.bootstrap, told.registry, *topics], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in topics}
    for line in done.stdout.splitlines():
        one = json.loads(line)
        if one["key"] != "poison":
            found[one["topic"]].append(one)
    return found


def test_kafkajs_decodes_raw_events_and_their_cloudevents_headers(told: Any, records: Any) -> None:
    [one] = records[told.topics.raw]
    assert one["key"] == one["value"]["fingerprint"] == told.fingerprint
    assert one["headers"]["ce_id"] == one["value"]["id"] == told.event_id
    assert one["headers"]["ce_type"] == one["value"]["type"] == "issues.opened"


def test_kafkajs_decodes_matched_events(told: Any, records: Any) -> None:
    [one] = records[told.topics.matched]
    assert one["value"]["event"]["fingerprint"] == told.fingerprint
    assert one["value"]["run_id"] == one["key"]


def test_kafkajs_decodes_decisions(told: Any, records: Any) -> None:
    decisions = {one["key"]: one["value"] for one in records[told.topics.decisions]}
    assert decisions[told.event_id]["verdicts"][0]["outcome"] == "started"

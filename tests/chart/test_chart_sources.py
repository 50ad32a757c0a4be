"""What can be said about the chart without helm: its files, its values and their schema."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from helm.schema.chart import Chart, values_schema

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "headgate"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
SERVICES = ["cron", "ingest-webhook", "poller", "processor", "runner"]


def _values(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_defaults_name_every_value_there_is() -> None:
    """The models have no defaults of their own: values.yaml is where they are, each with its comment."""
    Chart.model_validate(_values(CHART / "values.yaml"))


@pytest.mark.parametrize("path", [CHART / "values.yaml", *SCENARIOS], ids=lambda path: path.stem)
def test_values_and_scenarios_pass_the_schema(path: Path) -> None:
    jsonschema.validate(_values(path), values_schema())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_an_unknown_key_anywhere_in_our_blocks_is_refused(scenario: Path) -> None:
    for block in ("kafka", "topics", "ingestWebhook", "processor"):
        values = _values(scenario)
        values.setdefault(block, {})["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError, match="surprise"):
            jsonschema.validate(values, values_schema())


def test_every_value_has_a_line_of_documentation() -> None:
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    bare = []
    documented_below: int | None = None
    for number, line in enumerate(lines):
        match = re.match(r"^( *)([A-Za-z]+):(.*)$", line)
        if not match:
            continue
        depth = len(match[1])
        if documented_below is not None and depth > documented_below:
            continue  # inside a value that is documented whole
        documented_below = None
        if lines[number - 1].strip().startswith("# --"):
            documented_below = depth
        elif match[3].strip():
            bare.append(line.strip())
    assert not bare


def test_every_service_has_the_same_templates() -> None:
    common = {"service.yaml", "serviceaccount.yaml", "pdb.yaml", "servicemonitor.yaml"}
    for service in SERVICES:
        assert common <= {path.name for path in (CHART / "templates" / service).iterdir()}


def test_yaml_files_are_tidy() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "yamllint",
            "--strict",
            "-c",
            CHART / ".yamllint.yaml",
            CHART,
            ROOT / "compose.yaml",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout

"""Renders the chart with the real helm: the one on PATH, else one built once from its Go module into .tools/bin."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "headgate"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBERNETES = "1.34"
MINIMAL = CHART / "ci" / "minimal-values.yaml"


@dataclass(frozen=True)
class Chart:
    """A run of helm: its manifests, or what it said instead."""

    manifests: list[dict[str, Any]]
    error: str

    def get(self, kind: str, component: str | None) -> dict[str, Any]:
        return next(one for one in self.manifests if _is(one, kind, component))

    def has(self, kind: str, component: str | None = None) -> bool:
        return any(_is(one, kind, component) for one in self.manifests)

    def pods(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Component and pod spec of everything that runs pods."""
        for one in self.manifests:
            if "template" in one.get("spec", {}):
                yield (
                    one["metadata"]["labels"]["app.kubernetes.io/component"],
                    one["spec"]["template"]["spec"],
                )

    def pod(self, component: str) -> dict[str, Any]:
        return dict(self.pods())[component]

    def env(self, component: str) -> dict[str, Any]:
        """Environment of a component's container: the value, or where it comes from."""
        container = self.pod(component)["containers"][0]
        return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def _is(manifest: dict[str, Any], kind: str, component: str | None) -> bool:
    labels = manifest["metadata"].get("labels", {})
    return manifest["kind"] == kind and component in (None, labels.get("app.kubernetes.io/component"))


@pytest.fixture(scope="session")
def helm() -> str:
    """Path of helm; a machine with neither helm nor Go skips, and says what was not tested."""
    if found := shutil.which("helm"):
        return found
    built = ROOT / ".tools" / "bin" / "helm"
    if built.exists():
        return str(built)
    if shutil.which("go") is None:
        pytest.skip("rendering of the chart was NOT tested: neither helm nor go is on PATH")
    flags = " ".join(
        f"-X helm.sh/helm/v3/pkg/chartutil.k8sVersion{part}={number}"
        for part, number in zip(("Major", "Minor"), KUBERNETES.split("."), strict=True)
    )
    subprocess.run(
        ["go", "install", "-ldflags", f"-s -w {flags}", HELM],
        env={**os.environ, "GOBIN": str(built.parent), "CGO_ENABLED": "0"},
        check=True,
        timeout=1500,
    )
    return str(built)


Render = Callable[..., Chart]


@pytest.fixture(scope="session")
def render(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """`render({"poller": {"replicaCount": 2}})` on top of the minimal scenario, or of another file."""

    def run(values: dict[str, Any] | None = None, *, base: Path = MINIMAL, chart: Path = CHART) -> Chart:
        overlay = tmp_path_factory.mktemp("values") / "values.yaml"
        overlay.write_text(yaml.safe_dump(values or {}))
        done = subprocess.run(
            [
                helm,
                "template",
                "demo",
                str(chart),
                "--namespace",
                "hg",
                "--kube-version",
                f"{KUBERNETES}.0",
                "--values",
                str(base),
                "--values",
                str(overlay),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            return Chart([], done.stderr)
        return Chart([one for one in yaml.safe_load_all(done.stdout) if one], "")

    return run

"""No reader meets a broken example: every trigger and source in examples/, README and docs validates."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.common import catalogue
from headgate.common.model import Source, SourceSpec, Trigger

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(_BLOCK.findall(path.read_text("utf-8")), start=1):
            yield f"{path.relative_to(ROOT)}#{number}", block


def _documents() -> Iterator[Any]:
    for name, text in _texts():
        for number, document in enumerate(yaml.safe_load_all(text)):
            if isinstance(document, dict) and document.get("apiVersion") == "headgate/v1":
                yield pytest.param(document, id=f"{name}[{number}]")


def _check_provider(spec: SourceSpec) -> None:
    if spec.provider and spec.provider != "events":
        catalogue.provider(spec.provider).config.model_validate(spec.config)


@pytest.mark.parametrize("document", list(_documents()))
def test_an_example_is_what_apply_accepts(document: dict[str, Any]):
    if document["kind"] == "Source":
        _check_provider(Source.model_validate(document))
        return
    for source in Trigger.model_validate(document).sources:
        _check_provider(source)

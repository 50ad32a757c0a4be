"""What the docs name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path):
    missing = [link for link in _LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_every_fail_point_that_the_docs_name_is_in_the_code_and_the_reverse():
    code = "\n".join(
        path.read_text("utf-8")
        for base in ("services", "libs")
        for path in (ROOT / base).rglob("src/**/*.py")
    )
    in_code = set(re.findall(r"failpoint\(\s*\"([a-z.-]+)\"", code))
    page = (ROOT / "docs/explanation/acknowledgements.md").read_text("utf-8")
    assert set(re.findall(r"`((?:ingest|source|processor|runner)\.[a-z-]+)`", page)) == in_code

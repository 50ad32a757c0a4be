"""`python -m helm.schema` writes values.schema.json; `--check` only says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from helm.schema.chart import values_schema

TARGET = Path(__file__).parents[1] / "headgate" / "values.schema.json"


def main() -> int:
    text = values_schema()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} is not what helm/schema says; run: make generate", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

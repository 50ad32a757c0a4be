"""Records written by any earlier version of our schemas must decode today.

`avro/<Record>.<n>.avsc` is a schema as it once stood, `avro/<Record>.<n>.bin` a record written with it. When a
schema changes, its new form joins them as the next number; the old ones stay for ever.
"""

import json
from pathlib import Path

import fastavro
import pytest

from headgate.common import avro

HERE = Path(__file__).parent / "avro"
SCHEMAS = Path(__file__).parents[2] / "schemas"
GOLDEN = sorted(HERE.glob("*.bin"))
RECORDS = sorted(path.stem for path in SCHEMAS.glob("*.avsc"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_old_bytes_still_decode(path: Path):
    record = path.name.split(".")[0]
    writer = avro.parse(path.with_suffix(".avsc").read_text("utf-8"))
    decoded = avro.decode(writer, path.read_bytes(), avro.schema(record))
    fastavro.validate(decoded, avro.schema(record), raise_errors=True)


@pytest.mark.parametrize("record", RECORDS)
def test_the_schema_of_today_is_kept_as_a_golden_one(record: str):
    today = json.loads((SCHEMAS / f"{record}.avsc").read_text("utf-8"))
    kept = [json.loads(path.read_text("utf-8")) for path in HERE.glob(f"{record}.*.avsc")]
    assert today in kept, (
        f"schemas/{record}.avsc changed: keep its new form as the next tests/contract/avro/{record}.<n>"
    )


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_of_every_schema_is_described(record: str):
    def missing(node: object, path: str) -> list[str]:
        if isinstance(node, list):
            return [one for branch in node for one in missing(branch, path)]
        if not isinstance(node, dict):
            return []
        found = missing(node.get("type"), path) + missing(node.get("items"), path)
        for field in node.get("fields", ()):
            where = f"{path}.{field['name']}"
            found += ([] if field.get("doc") else [where]) + missing(field["type"], where)
        return found

    assert missing(json.loads((SCHEMAS / f"{record}.avsc").read_text("utf-8")), record) == []

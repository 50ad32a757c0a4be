"""Reading the pipeline's records without the pipeline's code: five bytes of framing, the registry, fastavro."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import httpx


class Decoder:
    """Asks the registry once for each schema id."""

    def __init__(self, registry_url: str) -> None:
        self._url = registry_url.rstrip("/")
        self._schemas: dict[int, Any] = {}

    def decode(self, value: bytes) -> dict[str, Any]:
        magic, schema_id = struct.unpack(">bI", value[:5])
        if magic != 0:
            raise ValueError(f"first byte {magic}")
        record = fastavro.schemaless_reader(io.BytesIO(value[5:]), self._schema(schema_id), None)
        assert isinstance(record, dict)
        return record

    def _schema(self, schema_id: int) -> Any:
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self._url}/schemas/ids/{schema_id}", timeout=10).raise_for_status()
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(answer.json()["schema"]))
        return self._schemas[schema_id]

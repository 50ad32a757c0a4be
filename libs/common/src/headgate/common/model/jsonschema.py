"""The JSON Schema of what users write, in which defaults stand as users would write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from headgate.common.model.durations import format_duration


class _AsWritten(GenerateJsonSchema):
    """Pydantic writes durations in ISO 8601, which our own models refuse."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True, schema_generator=_AsWritten)

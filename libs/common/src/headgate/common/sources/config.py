"""A provider's own settings out of a source as written."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headgate.common.errors import Misconfigured
from headgate.common.model import Source

Model = TypeVar("Model", bound=BaseModel)


def read_config(model: type[Model], source: Source) -> Model:
    """The settings, or which of them is wrong. What was written is not repeated: it may be a secret."""
    try:
        return model.model_validate(source.config)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(["config", *(str(part) for part in first["loc"])])
        raise Misconfigured(f"source {source.name}: {where}: {first['msg']}") from None

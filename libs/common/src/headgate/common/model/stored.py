"""A document as it lies on its compacted topic: name, uid, revision, and the parsed spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headgate.common.model.kinds import Source, Trigger

Kind = TypeVar("Kind", Trigger, Source)


@dataclass(frozen=True)
class Stored(Generic[Kind]):
    """One revision of a trigger or source."""

    name: str
    uid: str
    revision: int
    updated_at: int
    """Microseconds since 1970."""
    updated_by: str
    spec: Kind

    def record(self) -> dict[str, Any]:
        """As TriggerRecord or SourceRecord."""
        return {
            "name": self.name,
            "uid": self.uid,
            "revision": self.revision,
            "updated_at": self.updated_at,
            "updated_by": self.updated_by,
            "spec": self.spec.model_dump_json(by_alias=True, exclude_unset=True),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any], kind: type[Kind]) -> Stored[Kind]:
        """Out of a record. pydantic's ValidationError when the spec is none of ours."""
        return cls(
            name=record["name"],
            uid=record["uid"],
            revision=record["revision"],
            updated_at=record["updated_at"],
            updated_by=record["updated_by"],
            spec=kind.model_validate_json(record["spec"]),
        )

"""What users write: triggers and sources. One pydantic model each, for validation, JSON Schema, help and docs."""

from headgate.common.model.actions import Action, HttpAction, LocalAction
from headgate.common.model.durations import Duration, parse_duration
from headgate.common.model.kinds import (
    API_VERSION,
    Dedupe,
    EventMatch,
    Metadata,
    Policy,
    Retry,
    Schedule,
    Source,
    SourceSpec,
    Startup,
    Trigger,
    TriggerSource,
)
from headgate.common.model.stored import Stored

__all__ = [
    "API_VERSION",
    "Action",
    "Dedupe",
    "Duration",
    "EventMatch",
    "HttpAction",
    "LocalAction",
    "Metadata",
    "Policy",
    "Retry",
    "Schedule",
    "Source",
    "SourceSpec",
    "Startup",
    "Stored",
    "Trigger",
    "TriggerSource",
    "parse_duration",
]

"""The kinds: Trigger and Source, as `headgate apply -f` reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from headgate.common.conditions import Condition
from headgate.common.conditions import compile as compile_condition
from headgate.common.conditions import expression as compile_expression
from headgate.common.errors import Invalid
from headgate.common.model.actions import Action
from headgate.common.model.durations import Duration, parse_duration

API_VERSION = "headgate/v1"
EVENTS = "events"
"""The provider of what other systems produce straight to the raw topic."""

Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$",
        description="Lower case letters, digits, dots, dashes and underscores; unique in its kind.",
    ),
]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _compiled_by(compiler: Callable[[str], Condition], source: str | None) -> str | None:
    """The source, once it is known to be one."""
    if source:
        try:
            compiler(source)
        except Invalid as problem:
            raise ValueError(str(problem)) from problem
    return source


class Metadata(_Spec):
    """Who it is."""

    name: Name
    owner: Annotated[str, Field(description="Team or person to ask.", examples=["sre"])] = ""
    labels: Annotated[dict[str, str], Field(description="Free labels to select by.")] = {}
    trigger: Annotated[
        str | None,
        Field(description="Set by Headgate on a source that stands inside a trigger: that trigger."),
    ] = None


class Schedule(_Spec):
    """When a source is asked: an interval or a cron expression."""

    every: Annotated[Duration | None, Field(description="Interval.", examples=["30s"])] = None
    cron: Annotated[
        str | None,
        Field(description="Cron expression of 5 fields, or @hourly to @yearly.", examples=["*/5 * * * *"]),
    ] = None
    tz: Annotated[str, Field(description="Time zone of the cron expression.", examples=["Europe/Berlin"])] = (
        "UTC"
    )
    jitter: Annotated[
        str | None, Field(description="Spread of an interval: a share or a duration.", examples=["10%", "5s"])
    ] = None
    catch_up: Annotated[
        Literal["none", "last", "all"],
        Field(description="What happens to slots that passed while nobody was running (cron only)."),
    ] = "last"

    @model_validator(mode="after")
    def _exactly_one(self) -> Schedule:
        if (self.every is None) == (self.cron is None):
            raise ValueError("write exactly one of every or cron")
        if self.every is not None and self.every < timedelta(seconds=1):
            raise ValueError("every is at least 1s")
        if self.jitter and not self.jitter.rstrip("%").isdigit():
            parse_duration(self.jitter)
        return self


class Backfill(_Spec):
    """Start with what happened in the past."""

    backfill: Annotated[Duration, Field(description="How far back to start.", examples=["4h"])]


Startup = Literal["since_last", "ignore_historical"] | Backfill


class EventMatch(_Spec):
    """Which events of other producers: globs over CloudEvents' source and type."""

    source: Annotated[str, Field(description="Glob over the event's source.", examples=["billing/*"])] = "*"
    type: Annotated[str, Field(description="Glob over the event's type.", examples=["invoice.*"])] = "*"


class SourceSpec(_Spec):
    """One configured instance of a provider."""

    provider: Annotated[
        str,
        Field(description="The plug-in that knows the outside system.", examples=["github-webhook", "cron"]),
    ]
    integration: Annotated[
        Name | None,
        Field(
            description="Account it belongs to: sources of one integration share fingerprints.",
            examples=["pd-main"],
        ),
    ] = None
    config: Annotated[
        dict[str, Any],
        Field(
            validation_alias=AliasChoices("config", "query"),
            description="The provider's own settings; `query` is another name for it.",
        ),
    ] = {}
    schedule: Annotated[Schedule | None, Field(description="When to ask (pollers, cron).")] = None
    startup: Annotated[
        Startup,
        Field(
            description="Where a source without a position starts: now, at its last position, or in the past."
        ),
    ] = "since_last"
    overlap: Annotated[
        Duration | None,
        Field(description="How far before its position a poll asks again, for late arrivals."),
    ] = None
    match: Annotated[EventMatch | None, Field(description="For provider `events`: which ones.")] = None

    @model_validator(mode="after")
    def _match_is_for_events(self) -> SourceSpec:
        if self.match is not None and self.provider != EVENTS:
            raise ValueError("match belongs to provider `events`; other providers take config")
        return self


class TriggerSource(SourceSpec):
    """A source inside a trigger: written out, or the name of one declared on its own."""

    source: Annotated[Name | None, Field(description="Name of a declared source.")] = None
    name: Annotated[
        Name | None, Field(description="Name of the source written here; default: the trigger's.")
    ] = None
    provider: Annotated[str, Field(description="The plug-in that knows the outside system.")] = ""

    @model_validator(mode="after")
    def _named_or_written(self) -> TriggerSource:
        if self.source is None and not self.provider:
            raise ValueError("write `source: <name of a declared source>`, or `provider:` with its settings")
        if self.source is not None and (self.model_fields_set - {"source"}):
            raise ValueError("`source` names a declared source: put its settings there, not here")
        return self


class Dedupe(_Spec):
    """How long a repeat is a repeat."""

    window: Annotated[Duration, Field(description="After so long the same fingerprint counts as new.")] = (
        timedelta(hours=24)
    )


class Retry(_Spec):
    """How often the engine is asked."""

    attempts: Annotated[int, Field(ge=1, le=100, description="Tries before the dead-letter topic.")] = 5


class Policy(_Spec):
    """How runs are started."""

    order_by: Annotated[
        str | None,
        Field(
            description="Runs with the same value start one after another.",
            examples=["event.data.service.id"],
        ),
    ] = None
    retry: Annotated[Retry, Field(description="When the engine does not answer as it should.")] = Retry()

    @field_validator("order_by")
    @classmethod
    def _compiles(cls, order_by: str | None) -> str | None:
        return _compiled_by(compile_expression, order_by)


class Source(SourceSpec):
    """A source declared on its own."""

    api_version: Annotated[
        Literal["headgate/v1"], Field(alias="apiVersion", description="Always headgate/v1.")
    ] = "headgate/v1"
    kind: Annotated[Literal["Source"], Field(description="Source.")] = "Source"
    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def scope(self) -> str:
        """What its fingerprints are unique in."""
        return self.integration or self.name


class Trigger(_Spec):
    """Sources, a condition and an action: the thing users write."""

    api_version: Annotated[
        Literal["headgate/v1"], Field(alias="apiVersion", description="Always headgate/v1.")
    ] = "headgate/v1"
    kind: Annotated[Literal["Trigger"], Field(description="Trigger.")] = "Trigger"
    metadata: Metadata
    enabled: Annotated[bool, Field(description="Off: events are decided as `off` and start nothing.")] = True
    sources: Annotated[
        list[TriggerSource], Field(min_length=1, max_length=50, description="What it listens to.")
    ]
    when: Annotated[
        str | None,
        Field(
            description="Condition in CEL over `event`; without one every event starts a run.",
            examples=['event.data.urgency == "high"'],
        ),
    ] = None
    dedupe: Annotated[Dedupe, Field(description="How long a repeat is a repeat.")] = Dedupe()
    action: Annotated[Action, Field(description="What to start, and where.")]
    policy: Annotated[Policy, Field(description="How runs are started.")] = Policy()

    @property
    def name(self) -> str:
        return self.metadata.name

    @field_validator("when")
    @classmethod
    def _compiles(cls, when: str | None) -> str | None:
        return _compiled_by(compile_condition, when)

    def source_name(self, index: int) -> str:
        """The name of the source at this place: its own, or derived from the trigger's."""
        written = self.sources[index]
        default = self.name if len(self.sources) == 1 else f"{self.name}-{index + 1}"
        return written.source or written.name or default

    def source_names(self) -> list[str]:
        return [self.source_name(index) for index in range(len(self.sources))]

    def written_sources(self) -> list[Source]:
        """The sources that stand inside this trigger, as the documents of their own they become.
        Those of provider `events` need no service and become none."""
        found = []
        for index, written in enumerate(self.sources):
            if written.source is None and written.provider != EVENTS:
                fields = written.model_dump(exclude={"source", "name"}, exclude_unset=True)
                metadata = Metadata(
                    name=self.source_name(index), owner=self.metadata.owner, trigger=self.name
                )
                found.append(Source(metadata=metadata, **fields))
        return found

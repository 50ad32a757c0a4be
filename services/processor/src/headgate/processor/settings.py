"""What can be set on the processor (`HEADGATE_PROCESSOR__STORE=memory`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headgate.common.model import Duration
from headgate.common.settings import ServiceSettings


class ProcessorSettings(BaseModel):
    """The processor's own."""

    driver: Annotated[
        Literal["batch", "plain"],
        Field(description="How records reach the agent: in batches, or one by one as Faust does it."),
    ] = "batch"
    store: Annotated[
        Literal["rocksdb", "memory"],
        Field(
            description="Where the dedupe table lies: on disk (little memory, quick restarts) or in memory."
        ),
    ] = "rocksdb"
    dedupe_ttl: Annotated[
        Duration,
        Field(description="How long a sighting is kept at least; a trigger's longer window keeps it longer."),
    ] = timedelta(hours=24)
    batch_records: Annotated[int, Field(ge=1, le=50_000, description="Most records in one batch.")] = 5_000
    fetch_bytes: Annotated[
        int, Field(ge=65_536, description="Most bytes fetched of one partition at a time.")
    ] = 1024 * 1024
    session_timeout_seconds: Annotated[
        float, Field(ge=1, description="After so long without a heartbeat our partitions move.")
    ] = 10.0
    stall_seconds: Annotated[
        float, Field(gt=0, description="Without progress for so long, /readyz says which partition.")
    ] = 30.0
    stall_exit_seconds: Annotated[
        float, Field(gt=0, description="Without progress for so long, the process ends.")
    ] = 120.0
    sweep_seconds: Annotated[
        float, Field(gt=0, description="Pause between two steps of the sweeper of old sightings.")
    ] = 1.0


class Settings(ServiceSettings):
    """Everything the processor reads from its environment."""

    health_port: int = 9104
    processor: ProcessorSettings = ProcessorSettings()

"""The runner's settings: `HEADGATE_RUNNER__MAX_RUNNING=128` and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from headgate.common.settings import ServiceSettings
from headgate.runner.retry import Budget


class RunnerOptions(BaseModel):
    """How much at once, how patient, and where to."""

    max_running: Annotated[
        int, Field(ge=1, le=4096, description="Engine calls in flight at once, over all triggers.")
    ] = 64
    max_running_per_trigger: Annotated[
        int,
        Field(
            ge=1, description="Of those, how many one trigger may use: a slow engine leaves room for others."
        ),
    ] = 32
    held_per_partition: Annotated[
        int, Field(ge=1, description="Records in hand before a partition is paused.")
    ] = 256
    held_bytes_per_partition: Annotated[
        int, Field(ge=1024, description="Bytes in hand before a partition is paused.")
    ] = 2 * 1024 * 1024
    retry_base_seconds: Annotated[
        float, Field(ge=0, description="Longest pause after the first failed attempt; then fourfold each.")
    ] = 1.0
    retry_cap_seconds: Annotated[
        float, Field(ge=0, le=600, description="Longest pause of all, Retry-After included.")
    ] = 60.0
    retry_total_seconds: Annotated[
        float, Field(gt=0, description="Longest time a record may hold its key; then it is dead-lettered.")
    ] = 300.0
    max_call_seconds: Annotated[
        float, Field(gt=0, le=120, description="Upper limit for an action's own timeout.")
    ] = 60.0
    trigger_wait_seconds: Annotated[
        float, Field(gt=0, description="How long to wait for a trigger's revision that is not here yet.")
    ] = 30.0
    drain_seconds: Annotated[
        float, Field(ge=0, description="How long engine calls may take to finish after SIGTERM.")
    ] = 30.0
    stall_seconds: Annotated[
        float, Field(gt=0, description="Without progress for so long, readiness fails and the process exits.")
    ] = 180.0
    allow_private: Annotated[
        bool,
        Field(
            description="Whether HTTP actions may reach loopback and private networks. Link-local and cloud "
            "metadata addresses are refused whatever this says."
        ),
    ] = True
    local_file: Annotated[
        Path | None,
        Field(description="File of the local engine. Default: local-runs.jsonl beside the state directory."),
    ] = None

    def budget(self, attempts: int) -> Budget:
        """The retry budget of a trigger that allows so many attempts."""
        return Budget(attempts, self.retry_base_seconds, self.retry_cap_seconds, self.retry_total_seconds)


class RunnerSettings(ServiceSettings):
    """All of it, read once at start."""

    health_port: Annotated[int, Field(ge=0, le=65535)] = 9105
    runner: RunnerOptions = RunnerOptions()

    @property
    def local_file(self) -> Path:
        return self.runner.local_file or self.state_dir.parent / "local-runs.jsonl"

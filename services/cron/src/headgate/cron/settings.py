"""What the cron service is told by its environment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headgate.common.settings import ServiceSettings


class CronSettings(ServiceSettings):
    """Nothing of its own yet but the port."""

    health_port: Annotated[int, Field(ge=0, le=65535, description="Port of health and metrics.")] = 9103

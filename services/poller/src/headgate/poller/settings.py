"""What the poller is told by its environment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headgate.common.settings import ServiceSettings


class PollerSettings(ServiceSettings):
    """Where it may connect, and how long an answer may take."""

    health_port: Annotated[int, Field(ge=0, le=65535, description="Port of health and metrics.")] = 9102
    egress_allow: Annotated[
        list[str],
        Field(
            description="Private networks that sources may reach, as CIDR. Metadata addresses never are.",
            examples=[["10.0.0.0/8"]],
        ),
    ] = []
    page_timeout_seconds: Annotated[
        float, Field(gt=0, le=600, description="How long a provider may take for one page.")
    ] = 30.0

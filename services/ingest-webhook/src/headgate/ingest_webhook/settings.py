"""What can be set from the environment: `HEADGATE_WEBHOOK_PORT`, `HEADGATE_LIMITS__BODY_BYTES`, ..."""

from typing import Annotated

from pydantic import BaseModel, Field

from headgate.common.settings import ServiceSettings
from headgate.common.strict_json import DEEPEST


class Limits(BaseModel):
    """What a stranger may cost us."""

    body_bytes: Annotated[int, Field(ge=1, description="Largest body, as sent and as inflated.")] = 1_048_576
    header_seconds: Annotated[float, Field(gt=0, description="Time for the head of a request.")] = 5.0
    body_seconds: Annotated[float, Field(gt=0, description="Time for a body.")] = 10.0
    body_bytes_per_second: Annotated[int, Field(ge=0, description="A body that is slower is given up.")] = (
        1024
    )
    idle_seconds: Annotated[float, Field(gt=0, description="How long an idle connection is kept.")] = 75.0
    connections_per_address: Annotated[
        int,
        Field(
            ge=0, description="Connections from one address; 0: any number. Behind a proxy, count its own."
        ),
    ] = 256
    connections: Annotated[int, Field(ge=1, description="Connections of one process.")] = 4096
    in_flight: Annotated[int, Field(ge=1, description="Deliveries waiting for Kafka at once.")] = 2048
    in_flight_bytes: Annotated[int, Field(ge=1, description="Bytes of their bodies.")] = 33_554_432
    rate_per_second: Annotated[
        float,
        Field(gt=0, description="Verified deliveries per second from one source, where it says nothing."),
    ] = 20_000.0
    json_depth: Annotated[int, Field(ge=1, le=DEEPEST, description="Levels of nesting in a body.")] = 64
    json_nodes: Annotated[int, Field(ge=1, description="Values in a body.")] = 100_000
    json_names: Annotated[int, Field(ge=1, description="Names in one object.")] = 10_000


class Settings(ServiceSettings):
    webhook_host: Annotated[str, Field(description="Address that webhooks are taken on.")] = "127.0.0.1"
    webhook_port: Annotated[int, Field(ge=0, le=65535)] = 8081
    health_port: Annotated[int, Field(ge=0, le=65535)] = 9101
    limits: Limits = Limits()
    stop_seconds: Annotated[
        float, Field(gt=0, description="How long deliveries in flight may take when the service stops.")
    ] = 15.0

"""Settings every service has, read once from the environment (`HEADGATE_KAFKA__BOOTSTRAP=...`)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from headgate.common.errors import Misconfigured
from headgate.common.topics import DEFAULT_PARTITIONS, Topics


class KafkaSettings(BaseModel):
    """How to reach Kafka, and the prefix of our topics there."""

    bootstrap: Annotated[str, Field(description="host:port of one or more brokers.")] = "127.0.0.1:9092"
    prefix: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]{0,80}$",
            description="First part of every topic and group name; a tenant or a stage can have its own.",
        ),
    ] = "headgate"
    security_protocol: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        Field(description="How to talk to the brokers."),
    ] = "PLAINTEXT"
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None,
        Field(description="How to log in, with SASL."),
    ] = None
    sasl_username: Annotated[str | None, Field(description="User, with SASL.")] = None
    sasl_password: Annotated[SecretStr | None, Field(description="Password, with SASL.")] = None
    ssl_ca_location: Annotated[Path | None, Field(description="CA certificates that sign the brokers'.")] = (
        None
    )
    ssl_certificate_location: Annotated[
        Path | None, Field(description="Our certificate, with mutual TLS.")
    ] = None
    ssl_key_location: Annotated[Path | None, Field(description="Its key.")] = None
    partitions: Annotated[
        int, Field(ge=1, le=1000, description="Partitions of the event topics; fixed once they exist.")
    ] = DEFAULT_PARTITIONS
    replication: Annotated[
        int,
        Field(ge=1, description="Replication factor of the topics we create; capped at the broker count."),
    ] = 3

    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        Field(
            description="How we compress what we produce. Every client reads none and gzip; others, such as "
            "kafkajs and aiokafka, need more packages for the rest."
        ),
    ] = "none"

    def topics(self) -> Topics:
        """Our topics on this cluster."""
        return Topics(self.prefix, self.partitions)

    def librdkafka(self) -> dict[str, Any]:
        """The connection as librdkafka spells it."""
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "client.id": f"headgate-{socket.gethostname()}",
        }
        optional = {
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.sasl_username,
            "sasl.password": self.sasl_password and self.sasl_password.get_secret_value(),
            "ssl.ca.location": self.ssl_ca_location and str(self.ssl_ca_location),
            "ssl.certificate.location": self.ssl_certificate_location and str(self.ssl_certificate_location),
            "ssl.key.location": self.ssl_key_location and str(self.ssl_key_location),
        }
        config.update({key: value for key, value in optional.items() if value})
        return config


class RegistrySettings(BaseModel):
    """How to reach the Schema Registry (any server with Confluent's API)."""

    url: Annotated[str, Field(description="Base URL of the API.")] = "http://127.0.0.1:8085/apis/ccompat/v7"
    username: Annotated[str | None, Field(description="User, where it wants one.")] = None
    password: Annotated[SecretStr | None, Field(description="Password.")] = None
    timeout_seconds: Annotated[float, Field(gt=0, description="How long to wait for an answer.")] = 5.0


def _sentence(error: Any) -> str:
    """Without the value: it may be a password."""
    variable = "HEADGATE_" + "__".join(str(part) for part in error["loc"]).upper()
    return f"{variable} cannot be used: {error['msg'][0].lower()}{error['msg'][1:]}"


class ServiceSettings(BaseSettings):
    """What each service's own settings class extends."""

    model_config = SettingsConfigDict(env_prefix="HEADGATE_", env_nested_delimiter="__", extra="ignore")

    def __init__(self, **given: Any) -> None:
        """Misconfigured names each variable that cannot be used, and why."""
        try:
            super().__init__(**given)
        except ValidationError as problem:
            raise Misconfigured("; ".join(map(_sentence, problem.errors()))) from None
        except SettingsError as problem:
            raise Misconfigured(f'{problem}: lists are written as JSON, like ["10.0.0.0/8"]') from None

    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    health_host: Annotated[str, Field(description="Address of /livez, /readyz and /metrics.")] = "127.0.0.1"
    health_port: Annotated[int, Field(ge=0, le=65535, description="Their port.")] = 9100
    state_dir: Annotated[
        Path, Field(description="Local files a service may lose: schema ids, table state.")
    ] = Path(".headgate/state")
    instance_id: Annotated[
        str | None,
        Field(
            description="Stable name of this replica, unlike every other's: static group membership where it helps."
        ),
    ] = None

    @property
    def schema_cache(self) -> Path:
        """Schema ids and texts seen so far: what makes a registry outage harmless."""
        return self.state_dir / "schemas.json"

    log_format: Annotated[
        Literal["console", "json"], Field(description="Log lines for people, or one JSON object a line.")
    ] = "console"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="From which level on lines are written."),
    ] = "info"

"""The shared blocks: image, Kafka, registry, topics, logs, monitoring."""

from __future__ import annotations

from typing import Annotated, Literal

from helm.schema.shared import Labels, Name, Resources, Values
from pydantic import ConfigDict, Field


class Global(Values):
    """Open, unlike the rest: a parent chart passes its own globals to everyone."""

    model_config = ConfigDict(extra="allow")

    image_registry: str
    image_pull_secrets: list[dict[str, str]]


class Image(Values):
    repository: Annotated[str, Field(min_length=1)]
    tag: str
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")]
    pull_policy: Literal["Always", "IfNotPresent", "Never"]


class Tls(Values):
    ca_secret: Name
    ca_key: str
    client_secret: Name
    cert_key: str
    key_key: str


class Security(Values):
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    existing_secret: Name
    username_key: str
    password_key: str
    tls: Tls


class Kafka(Values):
    bootstrap_servers: Annotated[
        str, Field(pattern=r"^([^\s,:]+:\d+(,[^\s,:]+:\d+)*)?$", description="host:port[,host:port]")
    ]
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,80}$")]
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    security: Security


class SchemaRegistry(Values):
    url: Annotated[str, Field(pattern=r"^(https?://.+)?$")]
    existing_secret: Name
    username_key: str
    password_key: str


class Topics(Values):
    apply: bool
    partitions: Annotated[int, Field(ge=1, le=1000)]
    replication_factor: Annotated[int, Field(ge=1)]
    backoff_limit: Annotated[int, Field(ge=0)]
    resources: Resources


class Log(Values):
    format: Literal["json", "console"]
    level: Literal["debug", "info", "warning", "error"]


class ServiceMonitor(Values):
    enabled: bool
    interval: Annotated[str, Field(pattern=r"^\d+(ms|s|m)$")]
    labels: Labels

"""The whole of values.yaml."""

from __future__ import annotations

from typing import Annotated, Any

from helm.schema.platform import Global, Image, Kafka, Log, SchemaRegistry, ServiceMonitor, Topics
from helm.schema.services import IngestWebhook, Poller, Processor, Service
from helm.schema.shared import Environment, Kubernetes, Name, Values
from pydantic import Field


class Chart(Values):
    """Values of the headgate chart."""

    name_override: Name
    fullname_override: Name
    global_: Annotated[Global, Field(alias="global")]
    image: Image
    kafka: Kafka
    schema_registry: SchemaRegistry
    topics: Topics
    log: Log
    extra_env: list[Environment]
    pod_security_context: Kubernetes
    container_security_context: Kubernetes
    service_monitor: ServiceMonitor
    ingest_webhook: IngestWebhook
    poller: Poller
    cron: Service
    processor: Processor
    runner: Service


def values_schema() -> dict[str, Any]:
    """values.schema.json, in the draft that helm knows."""
    schema: dict[str, Any] = Chart.model_json_schema(ref_template="#/definitions/{model}")
    schema["definitions"] = schema.pop("$defs")
    _loosen(schema)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def _loosen(node: Any) -> None:
    """Drop titles, which only repeat the keys, and `required`: a user's file says as little as it wants to."""
    if isinstance(node, list):
        for one in node:
            _loosen(one)
    elif isinstance(node, dict):
        if isinstance(node.get("title"), str):
            node.pop("title")
        if isinstance(node.get("required"), list):
            node.pop("required")
        for one in node.values():
            _loosen(one)

"""One block a service. All share `Service`; two have something of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from helm.schema.shared import Environment, Kubernetes, Labels, Name, Resources, Values
from pydantic import Field


class Secrets(Values):
    existing_secret: Name
    mount_path: Annotated[str, Field(pattern=r"^(/.*)?$")]


class Probes(Values):
    startup_failure_threshold: Annotated[int, Field(ge=1)]


class PodDisruptionBudget(Values):
    enabled: bool
    max_unavailable: int | Annotated[str, Field(pattern=r"^\d+%$")]


class ServiceAccount(Values):
    create: bool
    name: Name
    annotations: Labels


class Service(Values):
    """What every service's block has."""

    enabled: bool
    replica_count: Annotated[int, Field(ge=0)]
    secrets: Secrets
    resources: Resources
    termination_grace_period_seconds: Annotated[int, Field(ge=0)]
    probes: Probes
    pod_disruption_budget: PodDisruptionBudget
    service_account: ServiceAccount
    extra_env: list[Environment]
    extra_env_from: list[Kubernetes]
    extra_volumes: list[Kubernetes]
    extra_volume_mounts: list[Kubernetes]
    pod_annotations: Labels
    pod_labels: Labels
    lifecycle: Kubernetes
    priority_class_name: str
    node_selector: Labels
    tolerations: list[Kubernetes]
    affinity: Kubernetes
    topology_spread_constraints: list[Kubernetes]


class HttpService(Values):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"]
    port: Annotated[int, Field(ge=1, le=65535)]
    annotations: Labels


class Ingress(Values):
    enabled: bool
    class_name: str
    annotations: Labels
    hosts: list[Annotated[str, Field(min_length=1)]]
    tls: list[Kubernetes]


class IngestWebhook(Service):
    service: HttpService
    ingress: Ingress


class Poller(Service):
    egress_allow: list[Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]+$")]]


class Persistence(Values):
    enabled: bool
    size: Annotated[str, Field(pattern=r"^\d+(\.\d+)?(Mi|Gi|Ti|M|G|T)$")]
    storage_class: Name


class Processor(Service):
    persistence: Persistence

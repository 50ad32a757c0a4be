"""Which processes a `headgate dev` consists of, with their ports and environment. Values in, values out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headgate.common.errors import Misconfigured

HOST = "127.0.0.1"
LOOPBACK = '["127.0.0.0/8"]'
"""What sources may reach besides the Internet, unless said: on a laptop the other side often runs beside us."""
REPLICA_STEP = 10
LAST_PORT = 65535


@dataclass(frozen=True)
class Kind:
    """A service of ours: how it is started, and where its health port lies above the base."""

    name: str
    module: str
    health: int
    serves_webhooks: bool = False


KINDS: tuple[Kind, ...] = (
    Kind("ingest-webhook", "headgate.ingest_webhook", 1, serves_webhooks=True),
    Kind("poller", "headgate.poller", 2),
    Kind("cron", "headgate.cron", 3),
    Kind("processor", "headgate.processor", 4),
    Kind("runner", "headgate.runner", 5),
)
ALIASES = {"webhook": "ingest-webhook", "webhooks": "ingest-webhook", "ingest": "ingest-webhook"}


@dataclass(frozen=True)
class Options:
    """What the person asked for."""

    directory: Path = Path(".headgate")
    kafka_port: int = 9092
    registry_port: int = 8085
    webhook_port: int = 8081
    health_port: int = 9100
    prefix: str = "headgate"
    bootstrap: str | None = None
    registry: str | None = None
    only: tuple[str, ...] = ()
    scale: Mapping[str, int] = field(default_factory=dict)
    reset: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to every service's environment."""

    @property
    def logs(self) -> Path:
        return self.directory / "logs"


@dataclass(frozen=True)
class Service:
    """One replica to run."""

    name: str
    kind: Kind
    health_port: int
    webhook_port: int | None
    env: Mapping[str, str]

    @property
    def ports(self) -> dict[int, str]:
        """Each port it needs, and what for."""
        ports = {self.health_port: f"{self.name}'s health"}
        if self.webhook_port is not None:
            ports[self.webhook_port] = "webhooks"
        return ports


def parse_only(texts: Sequence[str] | None) -> tuple[str, ...]:
    """'webhook,processor' as names of kinds; empty: all of them."""
    return tuple(kind_named(word).name for word in _words(texts))


def parse_scale(texts: Sequence[str] | None) -> dict[str, int]:
    """'processor=2,runner=2' as replicas by name of kind."""
    scale = {}
    for word in _words(texts):
        name, _, count = word.partition("=")
        if not count.isdecimal() or not 1 <= int(count) <= 9:
            raise Misconfigured(f"--scale {word}: write a service and 1 to 9 replicas, like processor=2")
        scale[kind_named(name).name] = int(count)
    return scale


def kind_named(word: str) -> Kind:
    name = ALIASES.get(word, word)
    for kind in KINDS:
        if kind.name == name:
            return kind
    known = ", ".join(kind.name for kind in KINDS)
    raise Misconfigured(f"there is no service named {word!r}; there are {known}")


def services(options: Options, bootstrap: str, registry: str) -> list[Service]:
    """Every replica to run. The first of a kind has its plain name and the documented ports."""
    planned = []
    for kind in KINDS:
        if options.only and kind.name not in options.only:
            continue
        for replica in range(options.scale.get(kind.name, 1)):
            planned.append(_service(options, kind, replica, bootstrap, registry))
    return planned


def ports(options: Options) -> dict[int, str]:
    """Every port that will be listened on, and what for. Misconfigured when two parts were given the same, or
    when one is none."""
    wanted: list[tuple[int, str]] = []
    if options.bootstrap is None:
        wanted.append((options.kafka_port, "Kafka"))
    if options.registry is None:
        wanted.append((options.registry_port, "the registry"))
    for service in services(options, "", ""):
        wanted += service.ports.items()
    found: dict[int, str] = {}
    for port, use in wanted:
        if not 1 <= port <= LAST_PORT:
            raise Misconfigured(f"port {port} ({use}) is none: choose between 1 and {LAST_PORT}.")
        if port in found:
            raise Misconfigured(
                f"port {port} is asked for twice: {found[port]} and {use}. Give each its own."
            )
        found[port] = use
    return found


def _service(options: Options, kind: Kind, replica: int, bootstrap: str, registry: str) -> Service:
    name = kind.name if replica == 0 else f"{kind.name}-{replica + 1}"
    health = options.health_port + kind.health + REPLICA_STEP * replica
    webhooks = options.webhook_port + replica if kind.serves_webhooks else None
    directory = options.directory.resolve()
    env = {
        "HEADGATE_KAFKA__BOOTSTRAP": bootstrap,
        "HEADGATE_KAFKA__PREFIX": options.prefix,
        "HEADGATE_REGISTRY__URL": registry,
        "HEADGATE_HEALTH_HOST": HOST,
        "HEADGATE_HEALTH_PORT": str(health),
        "HEADGATE_STATE_DIR": str(directory / "state" / name),
        "HEADGATE_INSTANCE_ID": f"dev-{name}",
        "HEADGATE_RUNNER__LOCAL_FILE": str(directory / "local-runs.jsonl"),
        "HEADGATE_EGRESS_ALLOW": os.environ.get("HEADGATE_EGRESS_ALLOW", LOOPBACK),
        **options.env,
    }
    if webhooks is not None:
        env |= {"HEADGATE_WEBHOOK_HOST": HOST, "HEADGATE_WEBHOOK_PORT": str(webhooks)}
    return Service(name, kind, health, webhooks, env)


def _words(texts: Sequence[str] | None) -> list[str]:
    """Of an option that may be given several times, with commas in each."""
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]

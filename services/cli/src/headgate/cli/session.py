"""What one invocation knows: addresses, output format, and the way to say things."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from headgate.common.control.connection import Connection
    from headgate.common.settings import ServiceSettings

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Control characters as JSON writes them: what a sender put into an event must not steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Screen(Console):
    """A console for other people's words."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)


DEV_FILE = Path(".headgate/dev.json")


class Format(StrEnum):
    table = "table"
    json = "json"
    jsonl = "jsonl"
    yaml = "yaml"
    name = "name"


@dataclass
class Session:
    """The options that work everywhere, and what follows from them. Data to `out`, words to `err`."""

    output: Format = Format.table
    bootstrap: str | None = None
    registry: str | None = None
    prefix: str | None = None
    verbose: bool = False
    out: Console = field(default_factory=lambda: Screen(highlight=False, soft_wrap=True))
    err: Console = field(default_factory=lambda: Screen(stderr=True, highlight=False, soft_wrap=True))

    def say(self, text: str, style: str = "") -> None:
        self.err.print(text, style=style or None, markup=False)

    def note(self, text: str) -> None:
        if self.verbose:
            self.say(text, "dim")

    @cached_property
    def settings(self) -> ServiceSettings:
        """Flags first, then HEADGATE_* variables, then a `headgate dev` running in this folder, then defaults."""
        from headgate.common.settings import ServiceSettings

        settings = ServiceSettings()
        running = dev_addresses()
        kafka = settings.kafka.model_copy()
        registry = settings.registry.model_copy()
        if running and "HEADGATE_KAFKA__BOOTSTRAP" not in os.environ and not self.bootstrap:
            kafka.bootstrap = str(running.get("bootstrap", kafka.bootstrap))
            registry_given = self.registry or "HEADGATE_REGISTRY__URL" in os.environ
            registry.url = registry.url if registry_given else str(running.get("registry", registry.url))
            if "HEADGATE_KAFKA__PREFIX" not in os.environ:
                kafka.prefix = str(running.get("prefix", kafka.prefix))
            self.note(f"using the headgate dev of this folder: {kafka.bootstrap} (from {DEV_FILE})")
        kafka.bootstrap = self.bootstrap or kafka.bootstrap
        kafka.prefix = self.prefix or kafka.prefix
        registry.url = self.registry or registry.url
        return settings.model_copy(update={"kafka": kafka, "registry": registry})

    @cached_property
    def connection(self) -> Connection:
        """Kafka, checked to be there; raises Unreachable within seconds."""
        from headgate.common.control.connection import Connection

        connection = Connection(self.settings)
        connection.check()
        return connection

    def close(self) -> None:
        if "connection" in self.__dict__:
            self.connection.close()


def dev_addresses(file: Path = DEV_FILE) -> dict[str, object]:
    """What `headgate dev` left for scripts, or nothing."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

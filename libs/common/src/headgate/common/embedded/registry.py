"""Apicurio Registry on loopback, spoken to by Confluent's API. Its data is an H2 file."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from headgate.common.embedded import ports
from headgate.common.embedded.download import ensure
from headgate.common.embedded.java import FAST_START, UTF8, java
from headgate.common.embedded.process import Process

READY_SECONDS = 120
HEAP = "-Xmx160m"
API = "/apis/ccompat/v7"


class SchemaRegistry:
    """`with SchemaRegistry(Path(".headgate/registry"), port=8085) as registry: registry.url`"""

    def __init__(self, directory: Path, *, port: int | None = None, logs: Path | None = None) -> None:
        """A port not given is a free one. `logs` is the folder for its log, if not this one."""
        self.port = port or ports.free()[0]
        home = ensure().registry_home
        self.process = Process(
            "registry",
            [java(), HEAP, *FAST_START, "-jar", "quarkus-run.jar"],
            log=(logs or directory) / "registry.log",
            cwd=home,
            env={
                **UTF8,
                "QUARKUS_HTTP_HOST": "127.0.0.1",
                "QUARKUS_HTTP_PORT": str(self.port),
                "QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false",
                "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
                "QUARKUS_MANAGEMENT_PORT": "0",  # nobody needs it: any free port
                "APICURIO_STORAGE_KIND": "sql",
                "APICURIO_STORAGE_SQL_KIND": "h2",
                # Each write reaches the disk at once: the default keeps half a second in memory.
                "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{directory.resolve()}/data/registry;WRITE_DELAY=0",
            },
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{API}"

    def start(self) -> None:
        """Returns at once, see `wait_ready`."""
        self.process.start()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        self.process.wait_ready(self._answers, seconds)

    def stop(self, seconds: float = 10.0) -> None:
        self.process.stop(seconds)

    def __enter__(self) -> SchemaRegistry:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:  # noqa: S310 our own
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

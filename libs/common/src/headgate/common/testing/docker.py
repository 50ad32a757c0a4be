"""The same two servers from containers, for machines where that is the habit."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

APICURIO = "apicurio/apicurio-registry:3.3.3"


@functools.cache
def wanted() -> bool:
    """`HEADGATE_TEST_DOCKER=1`, and a daemon answers."""
    if os.environ.get("HEADGATE_TEST_DOCKER") != "1":
        return False
    import docker  # type: ignore[import-untyped, unused-ignore]

    try:
        docker.from_env(timeout=3).ping()
    except docker.errors.DockerException:
        return False
    return True


@contextmanager
def kafka() -> Iterator[str]:
    from testcontainers.kafka import KafkaContainer

    with KafkaContainer().with_kraft() as container:
        yield container.get_bootstrap_server()


@contextmanager
def registry() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    with DockerContainer(APICURIO).with_exposed_ports(8080) as container:
        wait_for_logs(container, "Installed features", timeout=60)
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(8080)}"
        yield f"http://{address}/apis/ccompat/v7"

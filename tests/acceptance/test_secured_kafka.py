"""Every service and the command line on a Kafka that wants TLS and a password."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.harness.asking import one_run, runs_of
from tests.harness.certificates import Authority
from tests.harness.cluster import PORTS, SPAN, Cluster
from tests.harness.pipeline import Pipeline, documents
from tests.harness.plan import Door, Kind, Planned, token
from tests.harness.senders import delivery

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

FIRST = PORTS + SPAN
SECURE = FIRST + 5
USER, PASSWORD = "headgate", "a pass;word"


def broker(authority: Authority) -> dict[str, str]:
    """A second listener with TLS, a client certificate and a password; the first is the harness's own."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{FIRST},CONTROLLER://127.0.0.1:{FIRST + 10},"
        f"SASL_SSL://127.0.0.1:{SECURE}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{FIRST},SASL_SSL://127.0.0.1:{SECURE}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login} required user_{USER}="{PASSWORD}";',
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
    }


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Pipeline]:
    authority = Authority(tmp_path)
    client = str(authority.sign("client"))
    cluster = Cluster(tmp_path / "cluster", ports=FIRST, more=broker(authority))
    settings = {
        "HEADGATE_KAFKA__BOOTSTRAP": f"127.0.0.1:{SECURE}",
        "HEADGATE_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "HEADGATE_KAFKA__SASL_MECHANISM": "PLAIN",
        "HEADGATE_KAFKA__SASL_USERNAME": USER,
        "HEADGATE_KAFKA__SASL_PASSWORD": PASSWORD,
        "HEADGATE_KAFKA__SSL_CA_LOCATION": str(authority.file),
        "HEADGATE_KAFKA__SSL_CERTIFICATE_LOCATION": client,
        "HEADGATE_KAFKA__SSL_KEY_LOCATION": client,
    }
    replicas = {"ingest": 1, "processor": 1, "runner": 1, "poller": 1, "cron": 1}
    pipeline = Pipeline(cluster, "secured", tmp_path / "headgate", replicas, settings=settings)
    try:
        await cluster.up()
        await pipeline.up(documents(pipeline.engine_url))
        yield pipeline
    finally:
        pipeline.down()
        await pipeline.provider.stop()
        cluster.down()


async def test_a_webhook_is_one_run_over_tls_with_a_password_and_a_certificate(secured: Pipeline) -> None:
    event = Planned(0, Kind.NEW, Door.GITHUB, 0)
    path, headers, body = delivery(7007, event)
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.post(secured.ingest_urls[0] + path, data=body, headers=headers) as answer:
                assert answer.status == 202
    mark = token(7007, event.origin)
    run = await one_run(secured, mark)
    await secured.drained()
    assert runs_of(secured, mark) == [run]
    assert "broker" in await secured.cli("doctor", check=False)
    for child in secured.services.values():
        assert PASSWORD not in child.log.read_text()

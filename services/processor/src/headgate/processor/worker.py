"""The Faust app: group, table, agent. What the agent does is in `stage`; how records reach it, in `batching`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import faust
from faust.types import TP

from headgate.common.topics import Topics
from headgate.processor import batching, plain, store
from headgate.processor.batching import transport
from headgate.processor.batching.salvage import Salvage, salvager
from headgate.processor.batching.transport import Barrier
from headgate.processor.cluster import Cluster
from headgate.processor.settings import Settings
from headgate.processor.stage import GivenUp, Stage
from headgate.processor.store import FingerprintStore, Storage
from headgate.processor.sweeper import Sweeper

RECOVERING = "reading the table from its changelog"
TABLE = "fingerprints"
_FOREVER_SECONDS = 86_400.0


class ProcessorApp(faust.App):
    """Faust's app with what the batch transport asks of it."""

    salvage: Salvage
    barrier: Barrier


def new_app(settings: Settings, data: Path, cluster: Cluster) -> ProcessorApp:
    """Faust with its topics, its web server and its own idea of topics' creation switched off."""
    topics, own = settings.kafka.topics(), settings.processor
    scheme = batching.SCHEME if own.driver == "batch" else plain.SCHEME
    transport.register()
    app = ProcessorApp(
        topics.processor_app,
        broker=[f"{scheme}://{address}" for address in settings.kafka.bootstrap.split(",")],
        broker_credentials=_credentials(settings),
        # Or some eighty variables of common names, WEB_PORT and BROKER_URL among them, overrule what is said here.
        env={},
        # A static member that comes back is given what it was assigned before, and Faust refuses to have been
        # another address then: a container's host name is a new one each time.
        canonical_url=f"http://headgate/{quote(settings.instance_id or socket.gethostname(), safe='')}",
        datadir=str(data),
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=topics.partitions,
        table_standby_replicas=0,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.instance_id,
        consumer_max_fetch_size=own.fetch_bytes,
        broker_max_poll_records=own.batch_records,
        broker_session_timeout=own.session_timeout_seconds,
        broker_heartbeat_interval=own.session_timeout_seconds / 3.4,
        broker_rebalance_timeout=30.0,
        # A slow batch is the watchdog's business: it ends the process instead of leaving a zombie.
        broker_max_poll_interval=_FOREVER_SECONDS,
        broker_commit_interval=1.0,
        stream_wait_empty=True,
        stream_recovery_delay=0.0,
    )
    app.salvage = salvager(settings.kafka)
    app.barrier = cluster.barrier
    return app


def fingerprint_table(app: faust.App, topics: Topics, storage: Storage) -> FingerprintStore:
    """Faust's table on our store. Its changelog is a topic that exists already, compacted only."""
    store.register()
    changelog = app.topic(
        topics.fingerprints_changelog,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=topics.partitions,
        acks=False,
        internal=True,
        allow_empty=True,
        maxsize=1024,
    )
    table: Any = app.Table(
        TABLE,
        key_type=bytes,
        value_type=bytes,
        partitions=topics.partitions,
        store=f"{store.SCHEME}://{TABLE}",  # an address without a host is false, and Faust takes its own
        changelog_topic=changelog,
        options={"storage": storage},
        # Faust counts a whole batch as one change. With 1 it would go on reading what we write.
        recovery_buffer_size=2,
    )
    data: FingerprintStore = table.data
    return data


def batch_agent(
    app: faust.App,
    topics: Topics,
    stage: Stage,
    sweeper: Sweeper,
    most_records: int,
    crash: Callable[[BaseException], None],
) -> None:
    """The agent on the batch transport: in the order of each partition, and one go at a time.

    One go takes along what else was handed out, so that many small batches wait for one flush. Whoever lets
    partitions go waits for the batch that the agent was given, and so for all that is done with it.
    """
    channel = app.topic(topics.raw, topics.rekeyed, value_serializer="raw", key_serializer="raw")

    @app.agent(channel, concurrency=1, name="stage-1")
    async def stage_1(stream: Any) -> None:
        async for batch in stream:
            if batch.finished:
                continue
            generation = app.consumer_generation_id

            def still_ours(generation: int = generation) -> bool:
                return bool(consumer_of(app).flow_active) and app.consumer_generation_id == generation

            try:
                batches = consumer_of(app).ledger.together(batch, most_records)
                seen = [(one.partition.partition, one.records[-1].timestamp) for one in batches]
                await stage.work(batches, still_ours)
                for partition, last in seen:
                    sweeper.saw(partition, last)
            except GivenUp:
                continue
            except asyncio.CancelledError:
                raise
            except BaseException as problem:
                crash(problem)


def consumer_of(app: faust.App) -> transport.BatchConsumer:
    return cast(transport.BatchConsumer, app.consumer)


def busy(app: faust.App) -> str:
    """What keeps the app from handling events, in a word; empty when nothing does."""
    if app.in_recovery:
        return RECOVERING
    if app.rebalancing or app.consumer_generation_id <= 0:
        return "waiting for partitions"
    return ""


def positions(app: faust.App, topics: Topics, cluster: Cluster) -> dict[tuple[str, int], tuple[int, int]]:
    """(next to read, end) of each partition of ours, as the broker has them. Blocking."""
    mine = [(tp.topic, tp.partition) for tp in source_partitions(app, topics)]
    if not mine:
        return {}
    ends = cluster.ends(mine)
    committed = cluster.committed(topics.processor_app, mine)
    starts = cluster.starts(one for one in mine if one not in committed)
    found = {one: committed.get(one, starts.get(one, 0)) for one in mine}
    return {one: (done, ends[one]) for one, done in cluster.past_markers(found, ends).items()}


def source_partitions(app: faust.App, topics: Topics) -> list[TP]:
    """The partitions of events that are ours now."""
    return sorted(tp for tp in app.consumer.assignment() if tp.topic in (topics.raw, topics.rekeyed))


def _credentials(settings: Settings) -> Any:
    kafka = settings.kafka
    if kafka.security_protocol == "PLAINTEXT":
        return None
    context = None
    if kafka.security_protocol in ("SSL", "SASL_SSL"):
        import ssl

        context = ssl.create_default_context(cafile=kafka.ssl_ca_location and str(kafka.ssl_ca_location))
        # Python 3.13 alone also refuses authorities without key identifiers: with it this service would refuse
        # a broker that the others, on librdkafka, take.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if kafka.ssl_certificate_location:
            context.load_cert_chain(
                str(kafka.ssl_certificate_location),
                kafka.ssl_key_location and str(kafka.ssl_key_location),
            )
    if kafka.security_protocol == "SSL":
        return faust.SSLCredentials(context)
    return faust.SASLCredentials(
        username=kafka.sasl_username,
        password=kafka.sasl_password.get_secret_value() if kafka.sasl_password else None,
        mechanism=kafka.sasl_mechanism or "PLAIN",
        ssl_context=context,
    )

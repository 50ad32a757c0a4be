"""F19: the registry is away, answers nonsense, is slow, or has lost everything."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from urllib.parse import urlsplit

from aiohttp import web
from tests.chaos.scenario import Round, Scenario
from tests.harness.evidence import Expected
from tests.harness.foreign import Foreign, avro_body, framed, raw_event
from tests.harness.plan import token
from tests.harness.senders import Producers
from tests.harness.waiting import until

UNKNOWN = 700_000


async def disturb(round_: Round) -> None:
    """The kind of trouble goes by the seed, so that ten seeds see each of them."""
    kinds = (away, away_and_restarted, forgetful, away_at_first_start, broken, slow)
    kind = kinds[round_.seed % len(kinds)]
    round_.nemesis.note("registry", kind=kind.__name__)
    round_.figures["registry"] = kind.__name__
    await kind(round_)


async def stop(round_: Round) -> None:
    await asyncio.to_thread(round_.pipeline.cluster.registry.process.kill)


async def start(round_: Round) -> None:
    registry = round_.pipeline.cluster.registry
    registry.start()
    await asyncio.to_thread(registry.wait_ready, 90)


async def away(round_: Round) -> None:
    await stop(round_)
    await goes_on_without_a_word(round_)
    await start(round_)


async def broken(round_: Round) -> None:
    """Every request is answered 500."""

    async def oops(_: web.Request) -> web.Response:
        return web.Response(status=500, text="oops")

    async with instead(round_, oops):
        await goes_on_without_a_word(round_)
    await start(round_)


async def slow(round_: Round) -> None:
    """Every answer takes half a minute."""

    async def late(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response(status=404)

    async with instead(round_, late):
        await goes_on_without_a_word(round_)
    await start(round_)


@contextlib.asynccontextmanager
async def instead(
    round_: Round, answer: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[None]:
    """Something else answers at the registry's address."""
    await stop(round_)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        address = urlsplit(round_.pipeline.cluster.registry.url)
        await web.TCPSite(runner, address.hostname, address.port).start()
        yield
    finally:
        await runner.cleanup()


async def goes_on_without_a_word(round_: Round) -> None:
    """Known ids go on. A record with an unknown id is waited for, and dead-lettered only on the registry's word."""
    pipeline = round_.pipeline
    started = len(pipeline.runs())
    await until("runs start without a registry", lambda: len(pipeline.runs()) > started + 20, seconds=40)
    mark = token(round_.seed, UNKNOWN)
    producers = Producers(pipeline.cluster.bootstrap, pipeline.topics.raw, round_.history, 0)
    unknown = UNKNOWN + round_.seed  # each round its own: that an id is unknown is remembered for a while
    value = framed(unknown, avro_body(raw_event(mark, {"token": mark})))
    await producers.produce(None, Foreign(value))
    await asyncio.sleep(4)
    if any(record.value == value for record in round_.reader.records(pipeline.topics.dlq)):
        round_.broken("buried without the registry's word", mark)
    round_.extra = replace(round_.extra, expected=(Expected(mark, "poison", ""),), accepted=frozenset([mark]))


async def away_and_restarted(round_: Round) -> None:
    """Services that die meanwhile come back on the ids they kept on disk."""
    await stop(round_)
    for kind in ("ingest", "processor", "runner"):
        await round_.nemesis.kill_and_wait(round_.dice.choice(round_.services(kind)))
    await start(round_)


async def forgetful(round_: Round) -> None:
    """A registry that lost its data: what runs goes on, also after a restart; the installer writes the schemas again,
    under the ids that stand in the records."""
    await stop(round_)
    shutil.rmtree(round_.pipeline.cluster.home / "registry" / "data")
    await start(round_)
    await round_.pipeline.cli("topics", "apply")
    for kind in ("processor", "runner", "ingest"):
        await round_.nemesis.kill_and_wait(round_.dice.choice(round_.services(kind)))


async def away_at_first_start(round_: Round) -> None:
    """Without anything on disk a service waits for the registry: not ready, and no crash loop."""
    await stop(round_)
    victim = round_.dice.choice(round_.services("processor"))
    with round_.nemesis.holding(victim):
        await asyncio.to_thread(victim.kill)
        shutil.rmtree(round_.pipeline.home / "state" / victim.name, ignore_errors=True)
        victim.start()
        await asyncio.sleep(6)
        if not victim.running:
            round_.broken(
                "crash loop", f"{victim.name} ended with {victim.exit_code} while the registry was away"
            )
        elif await round_.pipeline.is_ready(victim.name):
            round_.broken("ready without schemas", victim.name)
    await start(round_)
    await round_.pipeline.ready([victim.name])


SCENARIO = Scenario("F19", "the registry in trouble", disturb, own_cluster=True, rate=30.0)

"""F16: one event a thousand times in parallel over two ingest processes; again later; again after its window."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import aiohttp
from tests.chaos.scenario import Round, Scenario
from tests.harness import ids
from tests.harness.decoding import Decoder
from tests.harness.evidence import Expected
from tests.harness.pipeline import TRIGGER, documents
from tests.harness.plan import Door, Kind, Planned, token
from tests.harness.senders import Webhooks, delivery, fingerprint_of
from tests.harness.waiting import until

STORM = 800_000
COPIES = 1000
WINDOW_SECONDS = 4.0


async def disturb(round_: Round) -> None:
    event = Planned(STORM, Kind.NEW, round_.dice.choice((Door.GITHUB, Door.GENERIC)), STORM)
    path, headers, body = delivery(round_.seed, event)
    connector = aiohttp.TCPConnector(limit=128)
    async with aiohttp.ClientSession(connector=connector) as session:
        webhooks = Webhooks(round_.pipeline.ingest_urls, round_.history, session)
        bases = round_.pipeline.ingest_urls

        async def storm(copies: int) -> Counter[str]:
            posts = (webhooks.post(None, bases[n % 2] + path, headers, body) for n in range(copies))
            return Counter(await asyncio.gather(*posts))

        answers = await storm(COPIES)
        await asyncio.sleep(WINDOW_SECONDS + 1)
        later = await storm(5)
    round_.figures["answers"] = dict(answers + later)
    mark = token(round_.seed, STORM)
    run = ids.run_id(round_.pipeline.prefix, TRIGGER, fingerprint_of(round_.seed, event))
    round_.extra = replace(
        round_.extra,
        expected=(Expected(mark, "new", run),),
        accepted=frozenset([mark]),
        copies=sum(answers.values()),
    )
    await until(
        "the storm's event was asked for again after its window",
        lambda: _matches(round_, run) >= 2,
        seconds=30,
    )


def _matches(round_: Round, run: str) -> int:
    decoder = Decoder(round_.pipeline.cluster.registry.url)
    records = round_.reader.records(round_.pipeline.topics.matched)
    return sum(decoder.decode(record.value or b"")["run_id"] == run for record in records)


async def the_storm_was_one_match_a_window(round_: Round) -> None:
    """A thousand copies in one window ask the runner once; the window's end allows once more."""
    run = round_.extra.expected[0].run_id
    matches = _matches(round_, run)
    round_.figures["matched_records_of_the_storm"] = matches
    if matches > 3:  # the first storm may straddle the end of a window
        round_.broken("dedupe let a storm through", f"{matches} matched records for one event")


def with_window(engine_url: str) -> list[dict[str, object]]:
    return documents(engine_url, dedupe={"window": f"{WINDOW_SECONDS:.0f}s"})


SCENARIO = Scenario(
    "F16",
    "a storm of duplicates",
    disturb,
    after=the_storm_was_one_match_a_window,
    documents=with_window,
    once_each=True,
)

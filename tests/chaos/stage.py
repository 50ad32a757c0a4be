"""A scenario on stage: one pipeline, and one round after the other, each with its own seed and verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path

from tests.chaos.nemesis import Nemesis
from tests.chaos.report import Result, keep_evidence, measure
from tests.chaos.scenario import Round, Scenario
from tests.harness.checker import check
from tests.harness.cluster import Cluster
from tests.harness.collect import collect
from tests.harness.history import History
from tests.harness.load import Load
from tests.harness.observers import Sampler, TopicReader
from tests.harness.pipeline import Pipeline, clockwork
from tests.harness.plan import Plan
from tests.harness.provider import fingerprint_of_item
from tests.harness.waiting import Missed, until


class Stage:
    """`async with Stage(...) as stage: await stage.play(seed)`"""

    def __init__(self, cluster: Cluster, scenario: Scenario, prefix: str, home: Path, reports: Path) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.reports = reports
        self.pipeline = Pipeline(
            cluster,
            prefix,
            home,
            scenario.replicas,
            scenario.launchers,
            scenario.settings,
        )
        self._home = home

    async def __aenter__(self) -> Stage:
        pipeline, topics = self.pipeline, self.pipeline.topics
        try:
            wanted = self.scenario.documents(pipeline.engine_url)
            if pipeline.of("poller"):
                wanted[0]["sources"].append(pipeline.provider.documents())
            if pipeline.of("cron"):
                wanted.append(clockwork(pipeline.engine_url))
            await pipeline.up(wanted)
            watched = (
                topics.raw,
                topics.rekeyed,
                topics.matched,
                topics.decisions,
                topics.dlq,
                topics.cursors,
            )
            self.watched = watched
            self.reader = await asyncio.to_thread(TopicReader, self.cluster.bootstrap, watched)
            self.sampler = Sampler(self.cluster.bootstrap, pipeline.groups, pipeline.memory)
        except BaseException:
            pipeline.down()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.sampler.close)
        await asyncio.to_thread(self.reader.close)
        await self.pipeline.provider.stop()
        await asyncio.to_thread(self.pipeline.down)

    async def play(self, seed: int, events: int) -> Result:
        """One round. A missed deadline is a finding ("not live"), not an exception."""
        scenario, pipeline = self.scenario, self.pipeline
        began = time.monotonic()
        history = History(self._home / f"history-{seed}.jsonl")
        plan = Plan(seed, scenario.doors, scenario.shares, scenario.poisons)
        load = Load(pipeline, plan, history)
        dice = random.Random(f"{seed}/nemesis")
        nemesis = Nemesis(pipeline, history, dice)
        round_ = Round(pipeline, self.reader, self.sampler, plan, history, load, nemesis, dice, events)
        self.reader.forget()
        pipeline.provider.items.clear()
        await pipeline.heal()
        self.sampler.samples.clear()
        marks = pipeline.marks()
        supervisor = asyncio.create_task(self._supervise(nemesis))
        try:
            await self._act(round_)
            for step in (None, scenario.after):
                if step is not None:
                    await step(round_)
                round_.figures["drained_after"] = await self._settle(round_)
        except (Missed, AssertionError) as problem:
            round_.broken("not live", str(problem)[:2000])
            round_.pages = await pipeline.pages()
        finally:
            supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await supervisor
        history.close()
        evidence = await asyncio.to_thread(
            collect,
            pipeline,
            self.reader,
            self.sampler,
            plan,
            history.path,
            marks,
            once_each=scenario.once_each,
            extra=round_.extra,
        )
        verdict = check(evidence)
        result = measure(round_, scenario, evidence, verdict, time.monotonic() - began)
        if not result.good:
            keep_evidence(self.reports, result, evidence, round_)
        return result

    async def _act(self, round_: Round) -> None:
        """Send and harm at the same time; then heal."""
        harm = asyncio.create_task(self.scenario.disturb(round_))
        try:
            await round_.load.run(round_.events, self.scenario.rate, lambda: not harm.done())
            await harm
        finally:
            harm.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await harm

    async def _settle(self, round_: Round) -> float:
        """Everything runs, nothing waits, and the observers have read it all. Cron rests: it never has nothing
        to do."""
        pipeline = self.pipeline
        clocks = [child.name for child in pipeline.of("cron")]
        round_.nemesis.held.update(clocks)
        for name in clocks:
            await asyncio.to_thread(pipeline.services[name].stop)
        await pipeline.heal(resting=clocks)
        await until("the poller has found every item", self._all_found, seconds=self.scenario.drain_seconds)
        took = await pipeline.drained(self.scenario.drain_seconds)
        ends = await asyncio.to_thread(pipeline.offsets.ends, self.watched)
        await until("the observers have read everything", lambda: self.reader.at(ends), seconds=30)
        await asyncio.to_thread(self.sampler.sample)
        return took

    def _all_found(self) -> bool:
        stored = {record.key for record in self.reader.records(self.pipeline.topics.raw)}
        return all(fingerprint_of_item(item.mark).encode() in stored for item in self.pipeline.provider.items)

    async def _supervise(self, nemesis: Nemesis) -> None:
        """What Kubernetes does: a service that ends by itself is started again, and it is noted."""
        while True:
            await asyncio.sleep(0.5)
            for child in self.pipeline.services.values():
                if child.name not in nemesis.held and not child.running and child.starts:
                    nemesis.exits.append(f"{child.name} ended with {child.exit_code}")
                    nemesis.note("ended", victim=child.name, code=child.exit_code)
                    child.start()

"""One matched record from its bytes to its end: a run at the engine and on the runs topic, or a dead letter.

The order carries the guarantee: engine, then run record, then (in lanes) the record counts as finished,
then the mark is committed. A crash at any point repeats from the engine, which knows the run id.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from headgate.common import avro
from headgate.common.conditions import event_view
from headgate.common.deadletter import Reason, attempt_of
from headgate.common.errors import Poison, Undecodable, Unreachable
from headgate.common.failpoints import failpoint
from headgate.common.headers import child_traceparent, rfc3339, text
from headgate.common.model import Stored, Trigger
from headgate.common.registry import Codec
from headgate.runner import metrics
from headgate.runner.engines import Engine, Exists, Refused, Retry, Run, Started
from headgate.runner.lanes import Job
from headgate.runner.outlet import Outlet
from headgate.runner.retry import pause
from headgate.runner.settings import RunnerOptions
from headgate.runner.slots import Slots
from headgate.runner.triggers import Gone, Triggers, newest

log = structlog.get_logger(__name__)

_REGISTRY_SECONDS = 2.0
_REPLAY = "correct the cause, then: headgate dlq replay"


@dataclass(frozen=True)
class Ended:
    """How a record ended at its engine, and after how many attempts."""

    outcome: Started | Exists | Refused
    attempts: int


class Starter:
    """Handles one record after another, many at a time; holds nothing between them."""

    def __init__(
        self,
        options: RunnerOptions,
        codec: Codec,
        triggers: Triggers,
        engines: Mapping[str, Engine],
        outlet: Outlet,
    ) -> None:
        self._options = options
        self._codec = codec
        self._triggers = triggers
        self._engines = engines
        self._outlet = outlet
        self.slots = Slots(options.max_running, options.max_running_per_trigger)

    async def handle(self, job: Job) -> None:
        """Do everything there is to do for a record. Returns when it may be committed."""
        reason = Reason(
            stage="runner",
            code="internal-error",
            message="",
            next=_REPLAY,
            topic=job.topic,
            partition=job.partition,
            offset=job.offset,
            attempt=attempt_of(job.headers),
        )
        try:
            matched = await self._decode(job)
            reason = replace(
                reason,
                trigger=matched["trigger"],
                fingerprint=matched["event"]["fingerprint"],
                event_id=matched["event"]["id"],
                run_id=matched["run_id"],
            )
            run, trigger = await self._prepare(job, matched)
        except Poison as problem:
            await self._bury(job, replace(reason, code=problem.code, message=str(problem)))
        except Gone as problem:
            await self._bury(job, replace(reason, code="trigger-gone", message=str(problem)))
        except Exception as problem:
            log.exception("A record could not be prepared; it goes to the DLQ.", offset=job.offset)
            what = f"the runner could not handle this record: {type(problem).__name__}"
            await self._bury(job, replace(reason, message=what, exception=type(problem).__name__))
        else:
            await self._start(job, matched, run, trigger, reason)

    async def _decode(self, job: Job) -> dict[str, Any]:
        """A schema id that is not ours needs the registry: in a thread, and for as long as that is away. Our
        trouble is never the record's; the partition waits, and the watchdog says so."""
        if job.value is None:
            raise Undecodable("the record has no value")
        own = avro.schema_id_of(job.value) == self._codec.id_of("MatchedEvent")
        while True:
            try:
                if own:
                    return self._codec.decode("MatchedEvent", job.value)
                return await asyncio.to_thread(self._codec.decode, "MatchedEvent", job.value)
            except Unreachable as problem:
                log.warning("Waiting for the schema registry.", offset=job.offset, reason=str(problem))
                with job.lane.idle(job):
                    await asyncio.sleep(_REGISTRY_SECONDS)

    async def _prepare(self, job: Job, matched: dict[str, Any]) -> tuple[Run, Stored[Trigger]]:
        with job.lane.idle(job):
            trigger = await newest(
                self._triggers,
                matched["trigger"],
                matched["trigger_revision"],
                since=job.taken_at,
                wait_seconds=self._options.trigger_wait_seconds,
            )
        action = trigger.spec.action
        return (
            Run(
                run_id=matched["run_id"],
                trigger=trigger.name,
                trigger_revision=trigger.revision,
                action=action.config,
                event=_event(matched["event"]),
                traceparent=child_traceparent(text(job.headers, "traceparent")),
            ),
            trigger,
        )

    async def _start(
        self, job: Job, matched: dict[str, Any], run: Run, trigger: Stored[Trigger], reason: Reason
    ) -> None:
        engine = trigger.spec.action.engine
        ended = await self._ask(job, run, engine, trigger.spec.policy.retry.attempts)
        outcome = ended.outcome
        record = {
            "run_id": run.run_id,
            "trigger": run.trigger,
            "trigger_uid": matched["trigger_uid"],
            "trigger_revision": run.trigger_revision,
            "event_id": run.event["id"],
            "fingerprint": run.event["fingerprint"],
            "source": run.event["source"],
            "engine": engine,
            "attempts": ended.attempts,
            "answer": outcome.answer,
            "received_at": matched["event"]["received_at"],
        }
        if isinstance(outcome, Refused):
            message = f"trigger {run.trigger}: {outcome.reason}"
            await self._bury(
                job, replace(reason, code=outcome.code, message=message, next=outcome.next), engine=engine
            )
            record |= {"state": "dead_lettered", "error": f"{message}. Next: {outcome.next}"[:2000]}
            await self._outlet.run(record, run.traceparent)
            return
        failpoint("runner.started-before-record")
        state = "started" if isinstance(outcome, Started) else "exists"
        await self._outlet.run({**record, "state": state, "handle": outcome.handle}, run.traceparent)
        failpoint("runner.recorded-before-commit")
        metrics.RUNS.labels(engine, state).inc()
        received = matched["event"]["received_at"] / 1_000_000
        metrics.INGEST_TO_RUN_SECONDS.observe(max(0.0, time.time() - received))

    async def _ask(self, job: Job, run: Run, name: str, attempts: int) -> Ended:
        """Ask the engine until it says yes or no, or the budget is spent. Between attempts the record
        holds its key and nothing else."""
        engine, budget = self._engines[name], self._options.budget(attempts)
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            async with self.slots.one(run.trigger, job):
                job.lane.moved()
                outcome = await self._call(engine, name, run)
                job.lane.moved()
            if not isinstance(outcome, Retry):
                return Ended(outcome, attempt)
            seconds = pause(
                budget,
                attempt=attempt,
                elapsed_seconds=time.monotonic() - began,
                asked_seconds=outcome.after_seconds,
                chance=random.random(),  # noqa: S311 - jitter, no secret
            )
            if seconds is None:
                spent = (
                    f"gave up after {attempt} attempts in {time.monotonic() - began:.0f} s; the last one: "
                )
                again = (
                    "see that the engine works, then: headgate dlq replay (a run that started is not doubled)"
                )
                return Ended(
                    Refused(spent + outcome.reason, "retries-exhausted", again, outcome.answer), attempt
                )
            log.info(
                "Engine not ready; asking again.",
                trigger=run.trigger,
                run_id=run.run_id,
                attempt=attempt,
                pause_seconds=round(seconds, 2),
                reason=outcome.reason,
            )
            with job.lane.idle(job):
                await asyncio.sleep(seconds)

    async def _call(self, engine: Engine, name: str, run: Run) -> Started | Exists | Refused | Retry:
        began = time.monotonic()
        try:
            outcome = await engine.start(run)
        except Exception as problem:
            log.exception("An engine failed in a way it should not.", engine=name, run_id=run.run_id)
            outcome = Retry(f"the {name} engine failed: {type(problem).__name__}")
        metrics.CALL_SECONDS.labels(name).observe(time.monotonic() - began)
        metrics.ATTEMPTS.labels(name, type(outcome).__name__.lower()).inc()
        return outcome

    async def _bury(self, job: Job, reason: Reason, engine: str = "none") -> None:
        await self._outlet.dead_letter(job, reason)
        metrics.RUNS.labels(engine, "dead_lettered").inc()
        log.warning(
            "Dead-lettered.",
            trigger=reason.trigger or None,
            run_id=reason.run_id or None,
            error=reason.code,
            reason=reason.message[:500],
            place=f"{job.topic}/{job.partition}/{job.offset}",
        )


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as templates and engines see it. `data` is parsed; numbers keep every digit."""
    try:
        data = json.loads(event["data"], parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise Poison(f"the event's data is not JSON: {problem}") from problem
    return {**event_view(event, data), "received_at": rfc3339(event["received_at"])}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")

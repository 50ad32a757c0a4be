"""What becomes of an event: one verdict for each trigger that listens to its source. No Kafka, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from headgate.common.conditions import Activation, ConditionError
from headgate.processor.sightings import Sighting, Sightings, counting
from headgate.processor.triggers import Listener

Outcome = Literal["started", "filtered", "duplicate", "off", "error"]

TOPICS = ("events.raw", "events.rekeyed")
"""What the topic codes of sightings stand for."""


class Verdict(NamedTuple):
    """One trigger's answer, and why."""

    trigger: Listener
    outcome: Outcome
    reason: str
    run_id: str | None = None
    order_key: str | None = None
    """What the run is ordered by, where the trigger asks for an order."""


def decide(
    fingerprint: str,
    here: Sighting,
    sightings: Sightings,
    candidates: Sequence[Listener],
    event: Activation,
) -> list[Verdict]:
    """The verdicts on the event that was read at `here`; `sightings` are the table's, `here` included
    when it counts. `event` is what conditions see of it.
    """
    return [
        _heard_before(trigger, fingerprint, here, sightings) or judge(trigger, fingerprint, event)
        for trigger in candidates
    ]


def claims(verdicts: Sequence[Verdict]) -> bool:
    """Whether the event counts as heard of. One that failed for every enabled trigger does not: it is a
    dead letter as a whole, and whoever produces it again, with our headers or without, is heard."""
    failed = False
    for verdict in verdicts:
        if verdict.outcome == "error":
            failed = True
        elif verdict.outcome != "off":
            return True
    return not failed


def judge(trigger: Listener, fingerprint: str, event: Activation) -> Verdict:
    """The verdict of one trigger on an event that it has not heard of."""
    if not trigger.enabled:
        return Verdict(trigger, "off", "the trigger is disabled")
    reason, order_key = "the trigger has no condition", None
    try:
        if trigger.condition is not None:
            answer = trigger.condition.evaluate(event)
            if not answer.passed:
                return Verdict(trigger, "filtered", answer.reason)
            reason = answer.reason
        if trigger.order_by is not None:
            order_key = str(trigger.order_by.value(event))
    except ConditionError as problem:
        return Verdict(trigger, "error", str(problem))
    except MemoryError:
        raise
    except Exception as problem:
        # Evaluated again it would fail again, for ever, and hold up all other events.
        return Verdict(trigger, "error", f"evaluating it failed: {type(problem).__name__}: {problem}")
    return Verdict(trigger, "started", reason, trigger.run_id(fingerprint), order_key)


def _heard_before(
    trigger: Listener, fingerprint: str, here: Sighting, sightings: Sightings
) -> Verdict | None:
    earlier = None
    for counted in counting(sightings, trigger.listens, trigger.window_millis):
        if counted.same_place(here):
            return None
        earlier = counted
    if earlier is None or here.millis - earlier.millis > trigger.window_millis:
        return None
    where = f"{TOPICS[earlier.topic]}/{earlier.partition}/{earlier.offset}"
    return Verdict(
        trigger,
        "duplicate",
        f"heard of before: first seen at {where}, from source {earlier.source}",
        trigger.run_id(fingerprint),
    )

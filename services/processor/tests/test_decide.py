"""The decider: no Kafka, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.common import fingerprints
from headgate.common.conditions import activation
from headgate.common.model import Stored, Trigger
from headgate.processor.decide import claims, decide
from headgate.processor.sightings import Sighting
from headgate.processor.triggers import Listener, Triggers, key_of

EVENT: dict[str, Any] = {
    "id": "e1",
    "fingerprint": "github/gh:1",
    "source": "gh",
    "provider": "github-webhook",
    "type": "push",
    "subject": None,
    "occurred_at": 0,
    "attributes": {},
}


def listener(name: str = "t", **fields: Any) -> Listener:
    spec = {
        "metadata": {"name": name},
        "sources": [{"provider": "github-webhook", "name": "gh"}],
        "action": {"local": {}},
        **fields,
    }
    uid = fingerprints.uid("headgate", "trigger", name)
    return Listener.of(Stored(name, uid, 1, 0, "", Trigger.model_validate(spec)))


def verdicts(*listeners: Listener, seen: tuple[Sighting, ...] | None = None, data: Any = None) -> list[Any]:
    here = Sighting("gh", 0, 1, 7, 1000)
    content = {"n": 1} if data is None else data
    return decide(
        EVENT["fingerprint"],
        here,
        (here,) if seen is None else seen,
        listeners,
        activation(EVENT, content),
    )


def outcome(*args: Any, **kwargs: Any) -> tuple[str, str]:
    (verdict,) = verdicts(*args, **kwargs)
    return verdict.outcome, verdict.reason


def test_without_a_condition_every_event_starts_a_run() -> None:
    assert outcome(listener()) == ("started", "the trigger has no condition")


def test_a_filtered_event_says_which_clause_and_the_actual_value() -> None:
    assert outcome(listener(when="event.type == 'push' && event.data.n == 2")) == (
        "filtered",
        "`event.data.n == 2` is false: it is 1",
    )


def test_a_disabled_trigger_is_off() -> None:
    assert outcome(listener(enabled=False, when="event.data.missing")) == ("off", "the trigger is disabled")


def test_a_missing_field_is_the_triggers_error_alone() -> None:
    both = verdicts(listener("a", when="event.data.missing == 1"), listener("b"))
    assert [one.outcome for one in both] == ["error", "started"]
    assert "missing" in both[0].reason
    assert both[0].run_id is None


def test_an_order_is_the_value_of_its_expression() -> None:
    (verdict,) = verdicts(listener(policy={"order_by": "event.data.n"}))
    assert verdict.order_key == "1"
    (verdict,) = verdicts(listener(policy={"order_by": "event.type + string(event.data.n)"}))
    assert verdict.order_key == "push1"
    (verdict,) = verdicts(listener(policy={"order_by": "event.data.nothing"}))
    assert verdict.outcome == "error"


def test_what_a_full_list_had_no_room_for_passes_when_the_window_is_over() -> None:
    day = 86_400_000
    assert outcome(listener(), seen=(Sighting("gh", 0, 1, 3, 1000 - day - 1),))[0] == "started"
    assert outcome(listener(), seen=(Sighting("gh", 0, 1, 3, 1000 - day),))[0] == "duplicate"


def test_another_event_of_the_fingerprint_is_a_duplicate_of_where_the_first_stood() -> None:
    earlier = Sighting("gh", 0, 1, 3, 900)
    (verdict,) = verdicts(listener(when="event.data.missing"), seen=(earlier,))
    assert (verdict.outcome, verdict.reason) == (
        "duplicate",
        "heard of before: first seen at events.raw/1/3, from source gh",
    )


def test_the_same_event_read_again_passes_again_under_the_same_run() -> None:
    here = Sighting("gh", 0, 1, 7, 1000)
    later = Sighting("poll", 0, 1, 9, 1001)
    (again,) = verdicts(listener(), seen=(here, later))
    assert again.outcome == "started"
    assert again.run_id == verdicts(listener())[0].run_id


def test_a_sighting_by_a_source_the_trigger_does_not_hear_leaves_it_the_event() -> None:
    assert (
        outcome(listener(), seen=(Sighting("poll", 0, 1, 3, 900), Sighting("gh", 0, 1, 7, 1000)))[0]
        == "started"
    )


def test_the_run_id_is_the_one_everybody_computes() -> None:
    one = listener()
    for fingerprint in ("github/gh:1", "events/ü:x", "cron/c:2026-01-01"):
        assert one.run_id(fingerprint) == fingerprints.run_id(one.uid, fingerprint)


def test_conditions_share_one_event_and_the_library_is_given_it_once_when_it_is_needed() -> None:
    asked = activation(EVENT, {"n": 1})
    here = Sighting("gh", 0, 1, 7, 1000)
    decide("f", here, (here,), [listener("a"), listener("b", when="event.data.n == 1")], asked)
    assert asked._prepared is None
    needing = [listener(f"t{number}", when=f"event.data.n + 1 == {number}") for number in (2, 3)]
    assert [one.outcome for one in decide("f", here, (here,), needing, asked)] == ["started", "filtered"]
    assert asked.prepared() is asked._prepared is not None


def test_only_the_triggers_of_the_events_source_are_asked() -> None:
    foreign = listener(
        "bills", sources=[{"provider": "events", "match": {"source": "billing/*", "type": "inv.*"}}]
    )
    named = listener("named", sources=[{"source": "gh"}])
    both = listener("both", sources=[{"source": "gh"}, {"provider": "events"}])
    triggers = Triggers([foreign, named, both])

    def names(provider: str, source: str, type: str = "inv.paid") -> list[str]:
        return [one.name for one in triggers.candidates(provider, source, type)]

    assert names("github-webhook", "gh") == ["both", "named"]
    assert names("events", "billing/eu") == ["bills", "both"]
    assert names("events", "billing/eu", "other") == ["both"]
    assert names("events", "gh") == ["both"]
    assert names("cron", "elsewhere") == []


def test_a_foreign_source_is_not_taken_for_one_of_ours() -> None:
    trigger = listener(sources=[{"source": "gh"}])
    assert trigger.listens(key_of("github-webhook", "gh"))
    assert not trigger.listens(key_of("events", "gh"))
    everything = listener(sources=[{"provider": "events"}])
    assert everything.listens(key_of("events", "x" * 500))
    assert not everything.listens(key_of("github-webhook", "gh"))


@pytest.mark.parametrize(("least", "longest"), [(0, 86_400_000), (7 * 86_400_000, 7 * 86_400_000)])
def test_the_longest_window_is_the_triggers_or_the_settings(least: int, longest: int) -> None:
    assert Triggers([listener()], least).longest_window_millis == longest


@pytest.mark.parametrize(
    ("whens", "enabled", "claimed"),
    [
        (["event.data.n == 1"], True, True),
        (["event.data.n == 2"], True, True),
        (["event.data.missing == 1"], True, False),
        (["event.data.missing == 1", "event.data.absent"], True, False),
        (["event.data.missing == 1", "event.data.n == 1"], True, True),
        (["event.data.missing == 1", "event.data.n == 2"], True, True),
        (["event.data.missing == 1"], False, True),
    ],
)
def test_an_event_that_failed_for_every_trigger_does_not_count_as_heard_of(
    whens: list[str], enabled: bool, claimed: bool
) -> None:
    listeners = [listener(f"t{n}", when=when, enabled=enabled) for n, when in enumerate(whens)]
    assert claims(verdicts(*listeners)) is claimed


def test_a_disabled_trigger_beside_one_that_fails_keeps_no_claim() -> None:
    asked = verdicts(listener("off", enabled=False), listener("broken", when="event.data.missing == 1"))
    assert not claims(asked)

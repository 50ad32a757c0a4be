"""What an apply or a delete decides, without Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate.common.catalogue import Provider
from headgate.common.control.documents import parse
from headgate.common.control.errors import Refused
from headgate.common.control.plan import Author, Plan, plan, plan_deletion
from headgate.common.control.store import State
from headgate.common.control.validate import validate


class AnyConfig(BaseModel):
    pass


def find_provider(name: str) -> Provider:
    return Provider(name, "poll", "poller", AnyConfig, "", "m")


def trigger(name: str, *sources: str) -> str:
    listed = "".join(f"\n  - {source}" for source in sources)
    return f"apiVersion: headgate/v1\nkind: Trigger\nmetadata: {{name: {name}}}\nsources:{listed}\naction: {{local: {{}}}}\n---\n"


def source(name: str) -> str:
    return f"apiVersion: headgate/v1\nkind: Source\nmetadata: {{name: {name}}}\nprovider: json\n---\n"


POLL = "{provider: json}"


def decide(text: str, state: State | None = None, at: int = 5) -> Plan:
    wanted, problems = validate(parse(text, "x.yaml").documents, find_provider)
    assert not problems
    return plan(wanted, state or State(), Author("test", "me", at))


def after(decided: Plan, state: State | None = None) -> State:
    """What is stored once a plan was carried out."""
    assert not decided.problems, list(map(str, decided.problems))
    triggers, sources = dict(state.triggers if state else {}), dict(state.sources if state else {})
    for change in decided.changes:
        kept = triggers if change.kind == "Trigger" else sources
        if change.stored is None:
            kept.pop(change.name)
        else:
            kept[change.name] = change.stored  # type: ignore[assignment]
    return State(triggers, sources)


def said(decided: Plan) -> list[str]:
    return [
        f"{change.action} {change.kind.lower()}/{change.name} {change.revision}" for change in decided.changes
    ]


def test_sources_inside_a_trigger_become_records_named_after_it() -> None:
    assert said(decide(trigger("page", POLL))) == ["created source/page 1", "created trigger/page 1"]
    assert said(decide(trigger("page", POLL, "{provider: json, name: mine}", POLL))) == [
        "created source/page-1 1",
        "created source/mine 1",
        "created source/page-3 1",
        "created trigger/page 1",
    ]


def test_events_of_other_producers_need_no_source_record() -> None:
    assert said(decide(trigger("page", "{provider: events}"))) == ["created trigger/page 1"]


def test_the_same_again_changes_nothing() -> None:
    text = trigger("page", POLL) + source("shared")
    state = after(decide(text))

    again = decide(text, state, at=9)

    assert {change.action for change in again.changes} == {"unchanged"}
    assert after(again, state) == state


def test_an_edit_raises_the_revision_of_what_changed_and_keeps_the_uid() -> None:
    state = after(decide(trigger("page", POLL)))
    decided = decide(trigger("page", POLL).replace("local: {}", "local: {note: x}"), state)

    assert said(decided) == ["unchanged source/page 1", "changed trigger/page 2"]
    assert after(decided, state).triggers["page"].uid == state.triggers["page"].uid


def test_a_source_that_leaves_its_trigger_is_removed_last() -> None:
    state = after(decide(trigger("page", POLL, POLL)))
    decided = decide(trigger("page", POLL), state)

    assert said(decided) == [
        "created source/page 1",
        "changed trigger/page 2",
        "deleted source/page-1 0",
        "deleted source/page-2 0",
    ]


def test_a_source_becomes_independent_under_its_own_name() -> None:
    state = after(decide(trigger("page", POLL)))
    decided = decide(source("page") + trigger("page", "{source: page}"), state)

    assert said(decided) == ["changed source/page 2", "changed trigger/page 2"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (trigger("page", "{source: nothing}"), "x.yaml:5: sources[0].source: there is no source nothing"),
        (
            trigger("page", POLL) + source("page"),
            "x.yaml:5: sources[0]: its source would be called page, which is",
        ),
        (source("one") + source("one"), "x.yaml:8: metadata.name: Source one is also written at x.yaml:3"),
        (
            trigger("a", "{provider: json, name: x}") + trigger("b", "{provider: json, name: x}"),
            "x.yaml:12: sources[0]: its",
        ),
    ],
)
def test_documents_that_do_not_go_together_are_refused_with_the_line(text: str, problem: str) -> None:
    assert [str(one)[: len(problem)] for one in decide(text).problems] == [problem]


def test_a_source_that_another_trigger_uses_cannot_go() -> None:
    state = after(decide(trigger("page", POLL) + trigger("other", "{source: page}")))

    assert "trigger other" in str(decide(trigger("page", "{provider: events}"), state).problems[0])
    with pytest.raises(Refused, match="source page is still used by trigger other"):
        plan_deletion("Trigger", ["page"], state)


def test_a_declared_source_in_use_cannot_be_deleted_and_its_users_are_named() -> None:
    state = after(
        decide(source("shared") + trigger("a", "{source: shared}") + trigger("b", "{source: shared}"))
    )

    with pytest.raises(Refused, match="triggers a, b"):
        plan_deletion("Source", ["shared"], state)
    assert said(plan_deletion("Trigger", ["a", "b"], state)) == ["deleted trigger/a 0", "deleted trigger/b 0"]


def test_a_source_inside_a_trigger_is_deleted_only_with_it() -> None:
    state = after(decide(trigger("page", POLL)))

    with pytest.raises(Refused, match="stands inside trigger page"):
        plan_deletion("Source", ["page"], state)
    assert said(plan_deletion("Trigger", ["page"], state)) == [
        "deleted trigger/page 0",
        "deleted source/page 0",
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=8))
def test_whatever_is_applied_no_source_is_without_its_trigger(edits: list[tuple[str, int]]) -> None:
    state = State()
    for name, count in edits:
        state = after(decide(trigger(name, *[POLL] * count), state), state)

    expected = {name for stored in state.triggers.values() for name in stored.spec.source_names()}
    assert set(state.sources) == expected

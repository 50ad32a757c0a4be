from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headgate.common.model import HttpAction
from headgate.common.templates import MAX_OUTPUT, TemplateRefused, Templates, values

EVENT = {
    "type": "issue.opened",
    "subject": None,
    "data": {
        "id": 5,
        "ratio": 1.5,
        "big": 2**63 + 1,
        "open": True,
        "title": 'a "quoted" <title>',
        "labels": ["x", {"name": "y"}],
        "items": [3],
        "evil": "{{ 7 * 7 }} {% raw %}",
        "__class__": "mine",
    },
}


def fill(structure: Any, event: Any = EVENT) -> Any:
    return Templates().fill(structure, {"event": values(event), "run": values({"id": "r-1"})}, "body")


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{ event.data.id }}", 5),
        ("{{ event.data.ratio }}", 1.5),
        ("{{ event.data.big }}", 2**63 + 1),
        ("{{ event.data.open }}", True),
        ("{{ event.subject }}", None),
        ("{{ event.data.labels }}", ["x", {"name": "y"}]),
        ("{{ event.data }}", EVENT["data"]),
        ("{{ event.data.items }}", [3]),
        ("{{ event.data['__class__'] }}", "mine"),
        ("no {{ event.data.id }}, {{ event.data.open }}, {{ event.subject }}!", "no 5, true, !"),
        ("{{ event.data.id }}{{ event.data.id }}", "55"),
        (" {{ event.data.id }}", " 5"),
        ("{{ event.data.title }}", 'a "quoted" <title>'),
        ("labels: {{ event.data.labels }}", 'labels: ["x",{"name":"y"}]'),
        ("{{ event.data.missing | default('none') }}", "none"),
        ("{{ event.data.title | upper }}", 'A "QUOTED" <TITLE>'),
        ("{{ 'yes' if event.data.open else 'no' }}", "yes"),
        ("{{ event.data.labels | length }}", 2),
        ("{{ event.data.labels | tojson }}", '["x",{"name":"y"}]'),
        ("{{ ['a', 'b'] | join('-') }}", "a-b"),
        ("{{ event.type | replace('.', '/') }}", "issue/opened"),
        ("{{ event.data.evil }}", "{{ 7 * 7 }} {% raw %}"),
        ("plain }} text {# kept #}", "plain }} text {# kept #}"),
        (7, 7),
        (None, None),
    ],
)
def test_an_expression_keeps_its_type_and_the_rest_is_text(template: Any, filled: Any) -> None:
    result = fill(template)
    assert result == filled
    assert type(result) is type(filled)


def test_structure_is_kept() -> None:
    assert fill({"a": ["{{ event.data.id }}", {"b": "{{ run.id }}"}], "c": 1}) == {
        "a": [5, {"b": "r-1"}],
        "c": 1,
    }


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ event.data.missing }}", "`event.data.missing` is undefined"),
        ("{{ event.keys }}", "is undefined"),
        ("{{ event.data.labels.append(1) }}", "no method append"),
        ("{{ event.data.title.format(1) }}", "no method named format"),
        ("{{ event.data.update({'a': 1}) }}", "no method update"),
        ("{{ event.data.labels.__class__ }}", "is undefined"),
        ("{{ 'a' * 100000000 }}", "multiplication is not supported"),
        ("{{ ('%1000000000d') | format(1) }}", "no filter named format"),
        ("{{ range(1000000) }}", "not callable"),
        ("{{ debug() }}", "not callable"),
        ("{% for x in event.data %}{% endfor %}", "statements"),
        ("{{ event", "unexpected end of input"),
        ("{{ " + "(" * 3000 + "1" + ")" * 1000 + " }}", "recursion limit"),
        ("{{ 'a' " + "~ 'a'" * 30 + " }}", "more than 20 joins"),
        ("x" * 5000 + "{{ 1 }}", "at most 4096 characters"),
    ],
)
def test_what_is_refused_says_where_and_why(template: str, says: str) -> None:
    with pytest.raises(TemplateRefused) as caught:
        fill({"a": [template]})
    assert str(caught.value).startswith("body.a[0]: ")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "template",
    [
        "{{ event.data.s }}{{ event.data.s }}{{ event.data.s }}",
        "{{ event.data.s | replace('a', event.data.s) }}",
        "{{ event.data.l | join(event.data.s) }}",
        "{{ event.data }}",
    ],
)
def test_an_event_cannot_blow_up_the_output(template: str) -> None:
    event = {"data": {"s": "a" * (MAX_OUTPUT // 2 - 10), "l": ["x"] * 100, "t": "b" * MAX_OUTPUT}}
    with pytest.raises(TemplateRefused, match="more than 262144 characters"):
        fill(template, event)


def test_the_output_limit_is_for_all_templates_of_an_action_together() -> None:
    event = {"data": {"s": "a" * (MAX_OUTPUT // 2 + 1)}}
    assert fill("{{ event.data.s }}", event)
    with pytest.raises(TemplateRefused):
        fill(["{{ event.data.s }}", "{{ event.data.s }}"], event)


def test_a_template_nested_without_end_is_refused() -> None:
    deep: Any = "x"
    for _ in range(40):
        deep = [deep]
    with pytest.raises(TemplateRefused, match="deeper than 32"):
        fill(deep)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(value=json_values)
def test_any_json_value_goes_through_unchanged(value: Any) -> None:
    assert fill("{{ event.v }}", {"v": value}) == value
    text = fill("v={{ event.v }}", {"v": value})
    expected = "" if value is None else value if isinstance(value, str) else json.loads(text[2:])
    assert (text[2:] if isinstance(value, str) or value is None else expected) == (
        "" if value is None else value
    )


@given(text=st.text(max_size=60))
def test_no_text_as_a_template_does_anything_but_fill_in_or_refuse(text: str) -> None:
    with contextlib.suppress(TemplateRefused):
        fill("{{ " + text + " }}")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ event.data.x", "not valid: unexpected end of input"),
        ("{{ evnt.data.x }}", "there is no evnt in templates; there are: event, run"),
        ("{{ event.x | shout }}", "no filter named shout"),
        ("{% if event.x %}", "statements"),
        ("{{ event.payload.n }}", "an event has no field payload; what was sent is event.data"),
        ("{{ run.uid }}", "run has no field uid; there are: id, revision, trigger"),
    ],
)
def test_what_fails_for_every_event_is_refused_before_any(template: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        HttpAction(url="https://engine.test/runs", body={"deep": ["fine {{ run.id }}", template]})
    assert "deep[1]: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "template", ["{{ event }}", "{{ event.received_at }}", "{{ event.data.a[0].b }}", "{{ run.revision }}"]
)
def test_what_some_event_can_fill_in_is_not_refused(template: str) -> None:
    assert Templates().problem(template) is None


@given(text=st.text(max_size=60))
def test_what_is_not_valid_beforehand_cannot_be_filled_in_either(text: str) -> None:
    template = "{{ " + text + " }}"
    if "not valid" in (Templates().problem(template) or ""):
        with pytest.raises(TemplateRefused):
            fill(template)

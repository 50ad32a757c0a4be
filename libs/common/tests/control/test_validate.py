"""Each mistake is told with file, line, field and what to write instead."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from headgate.common.catalogue import Provider
from headgate.common.control.documents import parse
from headgate.common.control.problems import did_you_mean, dotted
from headgate.common.control.validate import validate
from headgate.common.errors import Invalid, Misconfigured
from headgate.common.model import SourceSpec
from headgate.common.secrets import SecretRef


class HookConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    secrets: Annotated[tuple[SecretRef, ...], Field(min_length=1)]
    algorithm: Literal["sha256", "sha1"] = "sha256"


class AnyConfig(BaseModel):
    pass


class PollConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Annotated[str, Field(examples=["https://api.example.com/items"])]


PROVIDERS = {
    "generic-webhook": Provider("generic-webhook", "hook", "ingest", HookConfig, "", "m"),
    "json": Provider("json", "poll", "poller", PollConfig, "", "m", needs_schedule=True),
}


def find_provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise Invalid(f"there is no provider {name!r}; {did_you_mean(name, PROVIDERS)}")
    return PROVIDERS[name]


GOOD = """apiVersion: headgate/v1
kind: Trigger
metadata: {name: page}
sources:
  - provider: json
    query: {url: "https://api.example.com"}
    schedule: {every: 30s}
  - provider: generic-webhook
    config:
      secrets:
        - {env: SECRET}
when: event.data.urgency == "high"
action:
  http: {url: "https://engine/runs"}
"""


def told(text: str) -> list[str]:
    _, problems = validate(parse(text, "x.yaml").documents, find_provider)
    return [str(problem) for problem in problems]


def test_a_valid_document_has_no_problem() -> None:
    assert told(GOOD) == []


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        ("action:", "acton:", 'x.yaml:13: acton: unknown field; did you mean "action"?'),
        ("url: \"https://engine", "ulr: \"https://engine", 'x.yaml:14: action.http.ulr: unknown field; did you mean "url"?'),
        ("kind: Trigger", "kind: Tirgger", "x.yaml:2: kind: 'Tirgger' is not known; did you mean \"Trigger\"?"),
        ("kind: Trigger\n", "", "x.yaml:1: kind: is missing; write `kind: Trigger or Source`"),
        ("headgate/v1", "headgate/v2", "x.yaml:1: apiVersion: 'headgate/v2' is not known; did you mean \"headgate/v1\"?"),
        ("provider: json", "provider: jsno", "x.yaml:5: sources[0].provider: there is no provider 'jsno'; did you mean \"json\"?"),
        ("url: \"https://api", "uri: \"https://api", 'x.yaml:6: sources[0].query.uri: unknown field; did you mean "url"?'),
        ("every: 30s", "every: 30", "x.yaml:7: sources[0].schedule.every: 30 has no unit; write 30s, 5m, 1h30m, 24h or 7d"),
        ("    schedule: {every: 30s}\n", "", "x.yaml:5: sources[0].schedule: provider json needs a schedule; write `schedule: {every: 1m}`"),
        ("- {env: SECRET}", "- s3cr3t", "x.yaml:11: sources[1].config.secrets[0]: a secret itself does not belong"),
        ("== \"high\"", "=== \"high\"", "x.yaml:12: when: it is not valid CEL: 1:"),
        ("event.data.urgency ==", "1 +", "x.yaml:12: when: it is not valid CEL: 1:"),
        ("event.data.urgency", "event.payload.urgency", "x.yaml:12: when: an event has no field payload; what was sent is event.data"),
        ("action:", 'policy: {order_by: "event.data."}\naction:', "x.yaml:13: policy.order_by: it is not valid CEL: 1:"),
        ("{name: page}", "{name: Page One}", "x.yaml:3: metadata.name: 'Page One' does not fit here; lower case letters, digits"),
        ("https://engine", "ftp://engine", "x.yaml:14: action.http.url: the URL starts with http:// or https://"),
        ("https://engine", "https://eng ine", "x.yaml:14: action.http.url: the URL cannot hold ' ': write it as %20"),
        ("https://engine", "https://engine:99999", "x.yaml:14: action.http.url: the URL cannot be used: Port out of range"),
        ("https://engine", "https://:80", "x.yaml:14: action.http.url: the URL cannot be used: there is no host"),
        ("https://engine", "https://[::1", "x.yaml:14: action.http.url: the URL cannot be used: Invalid IPv6 URL"),
        ("/runs", "/{{ event.id }}", "x.yaml:14: action.http.url: the URL takes no templates: put what differs"),
        ("/runs\"", '/", headers: {"X Y": z}', "x.yaml:14: action.http.headers: 'X Y' is no header name"),
        ("/runs\"", '/", headers: {"X\\nY": z}', "x.yaml:14: action.http.headers: 'X\\nY' is no header name"),
        ("/runs\"", '/", headers: {"": z}', "x.yaml:14: action.http.headers: '' is no header name"),
        ("/runs\"", '/", headers: {idempotency-key: z}', "x.yaml:14: action.http.headers: idempotency-key is set by Headgate"),
        ("/runs\"", '/", headers: {X: [1]}', "x.yaml:14: action.http.headers.X: should be a valid string; write `X:"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_line_with_the_fix(was: str, now: str, line: str) -> None:
    assert was in GOOD

    assert any(problem.startswith(line) for problem in told(GOOD.replace(was, now, 1))), told(
        GOOD.replace(was, now, 1)
    )


def test_every_mistake_of_every_document_is_told_at_once() -> None:
    worse = (
        GOOD.replace("metadata: {name: page}", "metadata: {}")
        .replace("every", "evry")
        .replace("json", "jsno")
    )
    problems = told(worse + "---\n" + GOOD + "---\nkind: Source\napiVersion: headgate/v1\n")

    assert {int(problem.split(":")[1]) for problem in problems} >= {3, 5, 7, 31}


@pytest.mark.parametrize("item", ["s3cr3t", "{env: s-3}", "{value: s3cr3t}"])
def test_an_invalid_item_is_not_also_a_missing_one(item: str) -> None:
    assert len(told(GOOD.replace("{env: SECRET}", item))) == 1


@pytest.mark.parametrize(
    "secrets", ["[s3cr3t]", "s3cr3t", "{env: s3cr3t}", "[{env: s3cr3t-1}]", "[{value: s3cr3t}]"]
)
def test_a_secret_is_not_repeated_in_the_message(secrets: str) -> None:
    problems = told(GOOD.replace("\n        - {env: SECRET}", f" {secrets}"))
    assert problems
    assert "s3cr3t" not in "".join(problems)


def test_a_webhook_with_a_schedule_is_refused() -> None:
    told_ = told(GOOD.replace("    config:\n", "    schedule: {every: 1m}\n    config:\n"))

    assert told_ == [
        "x.yaml:9: sources[1].schedule: provider generic-webhook is called, it asks for nothing; remove schedule"
    ]


def test_what_only_the_service_knows_is_told_at_its_line() -> None:
    def check(source: SourceSpec) -> None:
        if source.schedule and source.schedule.cron == "nonsense":
            raise Misconfigured("schedule.cron: 'nonsense' is not five fields")

    cron = Provider("cron", "schedule", "cron", AnyConfig, "", "m", check=check)
    text = """apiVersion: headgate/v1
kind: Source
metadata: {name: nightly}
provider: cron
schedule:
  cron: nonsense
"""
    _, problems = validate(parse(text, "x.yaml").documents, lambda _: cron)

    assert list(map(str, problems)) == ["x.yaml:6: schedule.cron: 'nonsense' is not five fields"]


def test_paths_read_as_people_write_them() -> None:
    assert dotted(("sources", 0, "query", "user_id")) == "sources[0].query.user_id"


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("nme", 'did you mean "name"?'),
        ("api_version", 'did you mean "apiVersion"?'),
        ("zzz", "known are: apiVersion, name"),
    ],
)
def test_did_you_mean_prefers_the_near_one(word: str, answer: str) -> None:
    assert did_you_mean(word, ["name", "apiVersion"]) == answer

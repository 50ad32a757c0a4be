"""What the options mean, without starting anything."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.dev import plan
from headgate.cli.dev.keeper import LONGEST_PAUSE_SECONDS, STEADY_SECONDS, count_failures, pause_after
from headgate.cli.dev.plan import Options
from headgate.common.addresses import refusal
from headgate.common.errors import Misconfigured
from headgate.common.sources.guard import networks


def test_without_options_every_service_has_its_documented_ports() -> None:
    assert plan.ports(Options()) == {
        9092: "Kafka",
        8085: "the registry",
        8081: "webhooks",
        9101: "ingest-webhook's health",
        9102: "poller's health",
        9103: "cron's health",
        9104: "processor's health",
        9105: "runner's health",
    }


def test_replicas_have_their_own_ports_state_and_identity() -> None:
    options = Options(scale={"ingest-webhook": 2}, only=("ingest-webhook",))
    first, second = plan.services(options, "broker:9092", "http://registry")
    assert (first.name, first.health_port, first.webhook_port) == ("ingest-webhook", 9101, 8081)
    assert (second.name, second.health_port, second.webhook_port) == ("ingest-webhook-2", 9111, 8082)
    for name in ("HEADGATE_STATE_DIR", "HEADGATE_INSTANCE_ID", "HEADGATE_WEBHOOK_PORT"):
        assert first.env[name] != second.env[name]
    assert first.env["HEADGATE_KAFKA__BOOTSTRAP"] == "broker:9092"


def test_a_given_kafka_and_registry_need_no_port() -> None:
    options = Options(bootstrap="broker:9092", registry="http://registry", only=("cron",))
    assert plan.ports(options) == {9103: "cron's health"}


def test_a_port_given_twice_is_refused_with_both_uses() -> None:
    with pytest.raises(Misconfigured, match="port 9092 is asked for twice: Kafka and webhooks"):
        plan.ports(Options(webhook_port=9092))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(kafka_port=0), r"port 0 \(Kafka\) is none"),
        (Options(webhook_port=-3), r"port -3 \(webhooks\) is none"),
        (Options(health_port=65532), r"port 65536 \(processor's health\) is none"),
    ],
)
def test_a_number_that_is_no_port_is_refused(options: Options, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        plan.ports(options)


def test_paths_do_not_depend_on_the_folder_a_service_runs_in() -> None:
    (service,) = plan.services(Options(directory=Path("here"), only=("runner",)), "", "")
    assert Path(service.env["HEADGATE_STATE_DIR"]).is_absolute()


def test_sources_reach_this_machine_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def allowed() -> str:
        (service,) = plan.services(Options(only=("poller",)), "", "")
        return service.env["HEADGATE_EGRESS_ALLOW"]

    monkeypatch.delenv("HEADGATE_EGRESS_ALLOW", raising=False)
    assert refusal("127.0.0.1", networks(json.loads(allowed())), "") is None
    monkeypatch.setenv("HEADGATE_EGRESS_ALLOW", "[]")
    assert allowed() == "[]"


def test_only_and_scale_take_short_names() -> None:
    both = {"processor": 2, "ingest-webhook": 3}
    assert plan.parse_only(["webhook, processor"]) == ("ingest-webhook", "processor")
    assert plan.parse_only(["webhook", "processor"]) == ("ingest-webhook", "processor")
    assert plan.parse_scale(["processor=2,webhook=3"]) == both
    assert plan.parse_scale(["processor=2", "webhook=3"]) == both
    assert plan.parse_only(None) == ()


@pytest.mark.parametrize(
    "text", ["processor", "processor=", "processor=0", "processor=10", "processor=two", "processor=²"]
)
def test_a_scale_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="1 to 9 replicas"):
        plan.parse_scale([text])


def test_an_unknown_service_is_refused_with_those_there_are() -> None:
    with pytest.raises(Misconfigured, match="no service named 'nobody'; there are ingest-webhook, poller"):
        plan.parse_only(["nobody"])


@given(st.integers(1, 100))
def test_pauses_grow_up_to_a_limit(failures: int) -> None:
    assert pause_after(failures) <= pause_after(failures + 1) <= LONGEST_PAUSE_SECONDS
    assert pause_after(1) < pause_after(2) < pause_after(3)


def test_a_steady_run_starts_the_count_anew() -> None:
    assert count_failures(5, STEADY_SECONDS) == 1
    assert count_failures(5, 0.1) == 6

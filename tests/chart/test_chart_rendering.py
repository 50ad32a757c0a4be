"""What the chart installs, read from what helm renders."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from kubernetes_validate import SchemaNotFoundError

from headgate.common.settings import ServiceSettings

Render = Callable[..., Any]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "headgate"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
SERVICES = ["cron", "ingest-webhook", "poller", "processor", "runner"]

pytestmark = pytest.mark.timeout(1800)  # the first run on a machine without helm builds it


def _everything(render: Render) -> Any:
    return render(base=CHART / "ci" / "everything-values.yaml")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_lints_and_renders_to_valid_kubernetes_objects(
    helm: str, render: Render, scenario: Path
) -> None:
    subprocess.run([helm, "lint", "--strict", CHART, "--values", scenario], check=True, capture_output=True)
    chart = render(base=scenario)
    assert not chart.error
    for manifest in chart.manifests:
        try:
            kubernetes_validate.validate(manifest, "1.34", strict=True)
        except SchemaNotFoundError:
            assert manifest["apiVersion"] == "monitoring.coreos.com/v1"


def test_the_least_installs_five_services_and_applies_the_topics_first(render: Render) -> None:
    chart = render()
    assert sorted(component for component, _ in chart.pods()) == sorted([*SERVICES, "topics"])
    job = chart.get("Job", "topics")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert chart.pod("topics")["containers"][0]["args"] == ["headgate", "topics", "apply"]


def test_the_hook_uses_nothing_that_the_chart_creates(render: Render) -> None:
    spec = _everything(render).pod("topics")
    assert "serviceAccountName" not in spec
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} == {"emptyDir"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_can_be_left_out_whole(render: Render, service: str) -> None:
    key = "ingestWebhook" if service == "ingest-webhook" else service
    chart = render({key: {"enabled": False}})
    assert not [
        one for one in chart.manifests if one["metadata"]["labels"]["app.kubernetes.io/component"] == service
    ]
    assert len({component for component, _ in chart.pods()}) == len(SERVICES)


def test_without_an_account_of_its_own_a_pod_has_one_that_exists(render: Render) -> None:
    def account(**given: Any) -> tuple[str, list[str]]:
        chart = render({"runner": {"serviceAccount": given}})
        made = [one["metadata"]["name"] for one in chart.manifests if one["kind"] == "ServiceAccount"]
        return str(chart.pod("runner")["serviceAccountName"]), made

    used, made = account()
    assert used in made
    assert account(create=False)[0] == "default"
    assert account(create=False, name="theirs")[0] == "theirs"


def test_a_long_name_makes_labels_that_kubernetes_takes(render: Render) -> None:
    chart = render({"nameOverride": "n" * 70})
    labels = [value for one in chart.manifests for value in one["metadata"]["labels"].values()]
    assert max(map(len, labels)) <= 63


def test_poller_runs_without_ingress(render: Render) -> None:
    chart = render({"ingestWebhook": {"enabled": False}})
    assert chart.has("Deployment", "poller")
    assert not chart.has("Ingress")
    assert not chart.has("Deployment", "ingest-webhook")


def test_ingress_carries_webhooks_and_not_metrics(render: Render) -> None:
    [rule] = _everything(render).get("Ingress", "ingest-webhook")["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert (path["path"], path["backend"]["service"]["port"]) == ("/webhooks/", {"name": "http"})


def test_processor_keeps_its_name_and_its_table_across_restarts(render: Render) -> None:
    chart = render()
    processor = chart.get("StatefulSet", "processor")["spec"]
    assert chart.env("processor")["HEADGATE_INSTANCE_ID"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    [claim] = processor["volumeClaimTemplates"]
    [container] = chart.pod("processor")["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    state = Path(chart.env("processor")["HEADGATE_STATE_DIR"])
    assert state.is_relative_to(mounted[claim["metadata"]["name"]])
    assert processor["serviceName"] == chart.get("Service", "processor")["metadata"]["name"]


@pytest.mark.parametrize("service", SERVICES)
def test_services_beside_ours_put_nothing_into_our_environment(render: Render, service: str) -> None:
    """One named `headgate-health` would set HEADGATE_HEALTH_PORT to an address."""
    assert render().pod(service)["enableServiceLinks"] is False


def test_processor_without_a_volume_still_has_a_place_to_write(render: Render) -> None:
    chart = render({"processor": {"persistence": {"enabled": False}}})
    assert "volumeClaimTemplates" not in chart.get("StatefulSet", "processor")["spec"]
    assert {"name": "state", "emptyDir": {}} in chart.pod("processor")["volumes"]


@pytest.mark.parametrize("service", SERVICES)
def test_probes_ask_the_health_port_that_the_service_is_told_to_open(render: Render, service: str) -> None:
    chart = render()
    [container] = chart.pod(service)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert chart.env(service)["HEADGATE_HEALTH_PORT"] == str(ports["health"])
    assert chart.env(service)["HEADGATE_HEALTH_HOST"] == "0.0.0.0"
    asked = {
        probe: container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert {one["port"] for one in asked.values()} == {"health"}
    assert asked["readinessProbe"]["path"] == "/readyz"
    assert asked["livenessProbe"]["path"] == asked["startupProbe"]["path"] == "/livez"


@pytest.mark.parametrize(("service", "seconds"), [("runner", 60), ("processor", 60)])
def test_a_service_gets_the_time_it_needs_to_finish(render: Render, service: str, seconds: int) -> None:
    assert render().pod(service)["terminationGracePeriodSeconds"] == seconds


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_every_pod_passes_the_restricted_security_standard(render: Render, scenario: Path) -> None:
    for component, spec in render(base=scenario).pods():
        pod, [container] = spec["securityContext"], spec["containers"]
        own = container["securityContext"]
        assert pod["runAsNonRoot"] is True, component
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, component
        assert own["allowPrivilegeEscalation"] is False, component
        assert own["readOnlyRootFilesystem"] is True, component
        assert own["capabilities"] == {"drop": ["ALL"]}, component
        assert spec["automountServiceAccountToken"] is False, component
        assert set(container["resources"]) == {"requests", "limits"}, component


def test_a_disruption_budget_exists_only_where_a_pod_can_be_spared(render: Render) -> None:
    chart = render({"runner": {"replicaCount": 2}})
    assert [one["metadata"]["name"] for one in chart.manifests if one["kind"] == "PodDisruptionBudget"] == [
        "demo-headgate-runner"
    ]


def test_service_monitors_select_the_health_port_of_every_service(render: Render) -> None:
    chart = render({"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    for service in SERVICES:
        monitor = chart.get("ServiceMonitor", service)
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        target = chart.get("Service", service)
        assert monitor["spec"]["selector"]["matchLabels"].items() <= target["metadata"]["labels"].items()
        assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in target["spec"]["ports"]}


def test_kafka_credentials_come_from_the_named_secrets_in_every_pod(render: Render) -> None:
    chart = render(base=CHART / "ci" / "external-kafka-tls-values.yaml")
    for component, spec in chart.pods():
        env = chart.env(component)
        assert env["HEADGATE_KAFKA__SASL_PASSWORD"] == {
            "secretKeyRef": {"name": "kafka-user", "key": "password"}
        }
        assert env["HEADGATE_REGISTRY__PASSWORD"] == {
            "secretKeyRef": {"name": "registry-user", "key": "password"}
        }
        mounts = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
        assert os.path.dirname(env["HEADGATE_KAFKA__SSL_CA_LOCATION"]) in mounts
        assert os.path.dirname(env["HEADGATE_KAFKA__SSL_KEY_LOCATION"]) in mounts


def test_webhook_secrets_reach_the_service_as_environment_and_as_files(render: Render) -> None:
    spec = _everything(render).pod("ingest-webhook")
    [container] = spec["containers"]
    assert {"secretRef": {"name": "webhook-secrets"}} in container["envFrom"]
    assert {"name": "secrets", "mountPath": "/etc/headgate/secrets", "readOnly": True} in container[
        "volumeMounts"
    ]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_the_services_understand_every_setting_the_chart_gives_them(
    render: Render, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read back through the real settings class: a name it does not know would be ignored in silence."""
    chart = render(base=scenario)
    for service in SERVICES:
        env = {name: value for name, value in chart.env(service).items() if name.startswith("HEADGATE_")}
        own = _settings_of(service)
        for name, value in env.items():
            monkeypatch.setenv(name, value if isinstance(value, str) else "from-a-secret")
            path = name.removeprefix("HEADGATE_").lower().split("__")
            model: Any = own
            for part in path[:-1]:
                model = model.model_fields[part].annotation
            assert path[-1] in model.model_fields, f"{service} does not know {name}"
        own()


def _settings_of(service: str) -> type[ServiceSettings]:
    import importlib

    module = importlib.import_module(f"headgate.{service.replace('-', '_')}.settings")
    [found] = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, ServiceSettings) and one is not ServiceSettings
    ]
    return found


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"kafka": {"bootstrapServers": ""}}, "--set kafka.bootstrapServers="),
        ({"schemaRegistry": {"url": ""}}, "--set schemaRegistry.url="),
        (
            {"kafka": {"security": {"protocol": "SASL_SSL"}}},
            "set it to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            {"kafka": {"security": {"protocol": "SASL_SSL", "saslMechanism": "PLAIN"}}},
            "kubectl create secret generic headgate-kafka",
        ),
        ({"kafka": {"security": {"tls": {"caSecret": "ca"}}}}, "set it to SSL or SASL_SSL"),
        ({"processor": {"replicaCount": 7}}, "Lower replicaCount, or raise topics.partitions"),
        ({"ingestWebhook": {"ingress": {"enabled": True}}}, "--set ingestWebhook.ingress.hosts="),
        (
            {"ingestWebhook": {"enabled": False, "ingress": {"enabled": True, "hosts": ["a.example.com"]}}},
            "Enable the service or disable its ingress",
        ),
    ],
)
def test_a_contradiction_stops_the_install_and_names_the_fix(
    render: Render, values: dict[str, Any], says: str
) -> None:
    assert says in render(values).error


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"poller": {"replicas": 2}}, "'replicas' not allowed"),
        ({"kafka": {"bootstrap": "a:9092"}}, "'bootstrap' not allowed"),
        ({"kafka": {"bootstrapServers": "just-a-host"}}, "does not match pattern"),
        ({"runner": {"replicaCount": "two"}}, "want integer"),
    ],
)
def test_a_mistyped_value_is_refused_by_the_schema(render: Render, values: dict[str, Any], says: str) -> None:
    assert says in render(values).error


def test_notes_tell_the_urls_a_first_trigger_and_how_to_look(render: Render, tmp_path: Path) -> None:
    """helm shows notes only where it reaches a cluster, so a copy of the chart renders them into an object."""
    copy = tmp_path / "headgate"
    shutil.copytree(CHART, copy)
    notes = (copy / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (copy / "templates" / "_notes.tpl").write_text('{{- define "notes" -}}' + notes + "{{- end -}}")
    (copy / "templates" / "notes.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: notes}, "
        'data: {notes: {{ include "notes" . | toJson }}}}'
    )
    chart = render(base=CHART / "ci" / "everything-values.yaml", chart=copy)
    text = chart.get("ConfigMap", None)["data"]["notes"]
    assert "https://hooks.example.com/webhooks/<provider>/<source>" in text
    assert "headgate apply -f -" in text
    assert "kcat -b kafka.kafka.svc:9092 -C -e -t headgate.events.raw" in text

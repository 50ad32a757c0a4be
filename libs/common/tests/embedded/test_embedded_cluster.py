"""The embedded servers are the real ones, and keep what they were given."""

import base64
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headgate.common.embedded.kafka import Kafka, _seen_brokers, cluster_id
from headgate.common.embedded.registry import SchemaRegistry
from headgate.common.registry import Registry
from headgate.common.settings import RegistrySettings
from headgate.common.testing.cluster import Stack
from headgate.common.topicadmin import TopicAdmin

pytestmark = pytest.mark.kafka


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(20) == 0


def read_one(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        record = consumer.poll(20)
        return None if record is None else record.value()
    finally:
        consumer.close()


def create(bootstrap: str, topic: str, copies: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(topic, 1, copies)]).values():
        done.result(20)


def test_a_stack_has_its_topics_and_schemas(stack: Stack) -> None:
    assert not [found for found in TopicAdmin(stack.kafka).check(stack.topics) if found.is_problem]
    assert stack.topics.raw in stack.schema_ids


def test_no_cluster_id_looks_like_an_option() -> None:
    ids = [cluster_id(Path(f"/somewhere/{number}")) for number in range(500)]
    assert not [one for one in ids if one.startswith("-")]
    assert {len(base64.urlsafe_b64decode(one + "==")) for one in ids} == {16}


def test_acknowledged_records_outlive_kill_9_and_other_ports(tmp_path: Path) -> None:
    with Kafka(tmp_path / "kafka") as before:
        create(before.bootstrap, "kept", 1)
        produce(before.bootstrap, "kept", b"still here")
        before.kill()
    with Kafka(tmp_path / "kafka") as after:
        assert after.bootstrap != before.bootstrap
        assert read_one(after.bootstrap, "kept") == b"still here"


def test_data_stay_in_their_folder_whatever_it_is_called_and_wherever_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)
    home = Path("Jürgen's, of 木 & co")
    logs = home / "logs"
    for _ in range(2):
        with Kafka(home / "kafka", logs=logs) as kafka, SchemaRegistry(home / "registry", logs=logs):
            assert _seen_brokers(kafka.bootstrap) == 1
    assert [path.name for path in tmp_path.iterdir()] == [home.name]
    assert (home / "kafka/broker-1/data/meta.properties").exists()
    assert list((home / "registry/data").iterdir())
    assert {log.name for log in logs.iterdir()} == {"kafka.log", "registry.log"}


def test_schema_ids_outlive_kill_9_of_the_registry(tmp_path: Path) -> None:
    def register(url: str) -> int:
        client = Registry(RegistrySettings(url=url, timeout_seconds=15))
        try:
            return client.register("any.topic", "Run")
        finally:
            client.close()

    with SchemaRegistry(tmp_path / "registry") as server:
        first = register(server.url)
        server.process.kill()
        server.start()
        server.wait_ready()
        assert register(server.url) == first


def test_three_brokers_keep_accepting_writes_when_one_is_killed(tmp_path: Path) -> None:
    with Kafka(tmp_path / "kafka", brokers=3) as cluster:
        create(cluster.bootstrap, "safe", 3)
        produce(cluster.bootstrap, "safe", b"one")
        cluster.brokers[0].process.kill()
        produce(cluster.bootstrap, "safe", b"two")
        cluster.start()
        cluster.wait_ready()
        assert read_one(cluster.bootstrap, "safe") == b"one"

from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from headgate.common.errors import Unreachable
from headgate.common.registry import Codec, Registry, UnknownSchema
from headgate.common.settings import RegistrySettings
from headgate.common.testing.cluster import Stack
from headgate.common.topics import Topics

GONE = RegistrySettings(url="http://127.0.0.1:1/apis/ccompat/v7", timeout_seconds=0.5)


def _record(name: str) -> dict[str, object]:
    return {"source": name, "provider": "p", "cursor": "{}", "boundary": [], "saved_at": 1, "saved_by": ""}


@pytest.mark.kafka
def test_what_one_registry_client_wrote_another_reads_and_ids_survive_an_outage(stack: Stack, tmp_path: Path):
    cache = tmp_path / "schemas.json"
    with Registry(stack.registry, cache) as first, Registry(stack.registry) as other:
        value = Codec(first, stack.topics).encode("CursorRecord", _record("a"))
        assert Codec(other, stack.topics).decode("CursorRecord", value) == _record("a")

    cache.write_text(cache.read_text().replace(stack.registry.url, GONE.url))
    with Registry(GONE, cache) as offline:
        codec = Codec(offline, stack.topics)
        assert codec.encode("CursorRecord", _record("a")) == value
        assert codec.decode("CursorRecord", value) == _record("a")


@pytest.mark.kafka
def test_the_installer_demands_backward_transitive_of_every_subject(stack: Stack):
    topics = [topic.name for topic in stack.topics.all if topic.schema]
    with Registry(stack.registry) as registry:
        assert {registry.compatibility(topic) for topic in topics} == {"BACKWARD_TRANSITIVE"}


@pytest.mark.kafka
def test_an_id_that_the_registry_does_not_know_is_poison(stack: Stack):
    with Registry(stack.registry) as registry, pytest.raises(UnknownSchema):
        registry.schema(987_654_321)


def test_a_registry_that_does_not_answer_is_waited_for_never_poison():
    with Registry(GONE) as registry, pytest.raises(Unreachable, match="HEADGATE_REGISTRY__URL"):
        Codec(registry, Topics()).decode("Run", b"\x00\x00\x00\x00\x01")


def test_a_registry_in_trouble_is_waited_for_and_an_unknown_id_is_not_asked_for_twice(httpserver: HTTPServer):
    httpserver.expect_ordered_request("/schemas/ids/5").respond_with_data("boom", status=500)
    httpserver.expect_ordered_request("/schemas/ids/5").respond_with_json({"error_code": 40403}, status=404)
    with Registry(RegistrySettings(url=httpserver.url_for(""))) as registry:
        with pytest.raises(Unreachable):
            registry.schema(5)
        for _ in range(2):
            with pytest.raises(UnknownSchema):
                registry.schema(5)
    assert len(httpserver.log) == 2


def test_a_cache_that_cannot_be_kept_is_said_once_and_stops_nothing(httpserver: HTTPServer, tmp_path: Path):
    for number in (5, 6):
        answer = {"schema": '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "boolean"}]}'}
        httpserver.expect_request(f"/schemas/ids/{number}").respond_with_json(answer)
    no_folder = tmp_path / "file"
    no_folder.touch()
    settings = RegistrySettings(url=httpserver.url_for(""))
    with capture_logs() as said, Registry(settings, no_folder / "schemas.json") as registry:
        registry.schema(5)
        registry.schema(6)
    assert [line["log_level"] for line in said] == ["warning"]

"""The Schema Registry, needed when something starts and never while it runs.

Ids and schemas that we have seen are kept in a file beside the process: a registry that is down stops
only who meets an id for the first time. Any server with Confluent's API serves.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog

from headgate.common import avro
from headgate.common.errors import Misconfigured, Undecodable, Unreachable
from headgate.common.settings import RegistrySettings
from headgate.common.topics import Topics

log = structlog.get_logger(__name__)

COMPATIBILITY = "BACKWARD_TRANSITIVE"
NEGATIVE_SECONDS = 30.0
"""An id that the registry does not know is not asked for again for so long."""


class UnknownSchema(Undecodable):
    """The registry answers, and does not know the id: nobody can read these bytes."""

    code = "unknown-schema"


class Registry:
    """Schemas by id and our own ids by topic. Blocking: call it at start, or from a thread."""

    def __init__(self, settings: RegistrySettings, cache_file: Path | None = None) -> None:
        auth = None
        if settings.username and settings.password:
            auth = httpx.BasicAuth(settings.username, settings.password.get_secret_value())
        self._url = settings.url.rstrip("/")
        self._http = httpx.Client(
            auth=auth,
            timeout=settings.timeout_seconds,
            trust_env=False,
            headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"},
        )
        self._cache_file = cache_file
        self._cache_problem_told = False
        self._texts: dict[int, str] = {}
        self._subjects: dict[str, int] = {}
        self._parsed: dict[int, avro.Schema] = {}
        self._unknown_until: dict[int, float] = {}
        self._load()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def schema(self, schema_id: int) -> avro.Schema:
        """The writer's schema of an id. Unreachable: wait and ask again. UnknownSchema: poison."""
        parsed = self._parsed.get(schema_id)
        if parsed is not None:
            return parsed
        text = self._texts.get(schema_id)
        if text is None:
            text = self._fetch_schema(schema_id)
            self._texts[schema_id] = text
            self._save()
        try:
            parsed = self._parsed[schema_id] = avro.parse(text)
        except Undecodable:
            raise
        except Exception as problem:
            raise Undecodable(f"schema {schema_id} of the registry is not Avro: {problem}") from problem
        return parsed

    def id_of(self, topic: str, record: str) -> int:
        """The id under which `record` is registered for `topic`; asks (and registers) once, then remembers."""
        subject = f"{topic}-value"
        known = self._subjects.get(_subject_key(subject, record))
        return known if known is not None else self.register(topic, record)

    def register(self, topic: str, record: str) -> int:
        """Register our schema for a topic: the same schema keeps its id however often this is called."""
        subject, text = f"{topic}-value", avro.schema_text(record)
        answer = self._call("POST", f"/subjects/{subject}/versions", json={"schema": text})
        if answer.status_code == 409 or answer.status_code == 422:
            raise Misconfigured(
                f"the registry refuses schemas/{record}.avsc for {subject}: it is not {COMPATIBILITY} with what "
                f"is there ({_excerpt(answer)}). Give every new field a default, or use another topic prefix."
            )
        _expect_ok(answer, f"register {subject}")
        schema_id = int(answer.json()["id"])
        before = self._subjects.get(_subject_key(subject, record))
        if before is not None and before != schema_id:
            log.warning(
                "The registry gave a schema another id than before: it may have lost data. Records keep their old id.",
                subject=subject,
                before=before,
                now=schema_id,
            )
        self._subjects[_subject_key(subject, record)] = schema_id
        self._texts[schema_id] = text
        self._parsed.pop(schema_id, None)
        self._save()
        return schema_id

    def install(self, topics: Topics) -> dict[str, int]:
        """Register every schema of `topics` and demand compatibility of what comes after. Repeatable."""
        ids = {}
        for topic in topics.all:
            if topic.schema is None:
                continue
            ids[topic.name] = self.register(topic.name, topic.schema)
            answer = self._call("PUT", f"/config/{topic.name}-value", json={"compatibility": COMPATIBILITY})
            _expect_ok(answer, f"set the compatibility of {topic.name}-value")
        return ids

    def compatibility(self, topic: str) -> str | None:
        """What the registry demands of new schemas for a topic; None where it says nothing."""
        answer = self._call("GET", f"/config/{topic}-value")
        if answer.status_code == 404:
            return None
        _expect_ok(answer, f"read the compatibility of {topic}-value")
        body = answer.json()
        return str(body.get("compatibilityLevel") or body.get("compatibility"))

    def subjects(self) -> list[str]:
        answer = self._call("GET", "/subjects")
        _expect_ok(answer, "list the subjects")
        return [str(one) for one in answer.json()]

    def _fetch_schema(self, schema_id: int) -> str:
        until = self._unknown_until.get(schema_id)
        if until is not None and time.monotonic() < until:
            raise UnknownSchema(f"the registry does not know schema id {schema_id}")
        answer = self._call("GET", f"/schemas/ids/{schema_id}")
        if answer.status_code == 404:
            if len(self._unknown_until) > 10_000:
                self._unknown_until.clear()
            self._unknown_until[schema_id] = time.monotonic() + NEGATIVE_SECONDS
            raise UnknownSchema(f"the registry does not know schema id {schema_id}")
        _expect_ok(answer, f"read schema {schema_id}")
        body = answer.json()
        if body.get("schemaType", "AVRO") != "AVRO":
            raise UnknownSchema(f"schema id {schema_id} is {body['schemaType']}, not Avro")
        return str(body["schema"])

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, self._url + path, **more)
        except httpx.HTTPError as problem:
            raise Unreachable(
                f"the schema registry does not answer ({type(problem).__name__}); "
                "check HEADGATE_REGISTRY__URL and that it runs"
            ) from problem

    def _load(self) -> None:
        if self._cache_file is None:
            return
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self._cache_file.read_text("utf-8")).get(self._url, {})
            self._texts = {int(number): str(text) for number, text in kept["schemas"].items()}
            self._subjects = {str(name): int(number) for name, number in kept["subjects"].items()}

    def _save(self) -> None:
        """Replace the file whole: several services share it, a reader never sees half of it."""
        if self._cache_file is None:
            return
        try:
            self._cache_file.parent.mkdir(parents=True, exist_ok=True)
            everything: dict[str, Any] = {}
            with contextlib.suppress(OSError, ValueError):
                everything = json.loads(self._cache_file.read_text("utf-8"))
            mine = everything.setdefault(self._url, {"schemas": {}, "subjects": {}})
            mine["schemas"].update({str(number): text for number, text in self._texts.items()})
            mine["subjects"].update(self._subjects)
            handle, name = tempfile.mkstemp(dir=self._cache_file.parent, prefix=".schemas-")
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(everything, out)
            os.replace(name, self._cache_file)
        except OSError as problem:
            if not self._cache_problem_told:
                self._cache_problem_told = True
                log.warning(
                    "Could not keep the schema cache; a registry outage would be felt at the next start.",
                    error=str(problem),
                )


class Codec:
    """Encode and decode the records of one topic prefix: `codec.encode("Run", {...})`."""

    def __init__(self, registry: Registry, topics: Topics) -> None:
        self._registry = registry
        self._topic_of = {topic.schema: topic.name for topic in topics.all if topic.schema}
        self._ids: dict[str, int] = {}

    def prepare(self, *records: str) -> None:
        """Learn the ids of these record types now, so that nothing later needs the registry."""
        for record in records:
            self._ids[record] = self._registry.id_of(self._topic_of[record], record)

    def id_of(self, record: str) -> int:
        if record not in self._ids:
            self.prepare(record)
        return self._ids[record]

    def encode(self, record: str, values: Mapping[str, Any]) -> bytes:
        return avro.encode(avro.schema(record), self.id_of(record), dict(values))

    def decode(self, record: str, value: bytes) -> dict[str, Any]:
        """Poison (Undecodable, TooLarge) or Unreachable, else the record as our schema sees it."""
        schema_id = avro.schema_id_of(value)
        if schema_id == self._ids.get(record):
            return avro.decode(avro.schema(record), value)
        return avro.decode(self._registry.schema(schema_id), value, avro.schema(record))


def _subject_key(subject: str, record: str) -> str:
    """The schema's text is part of the key: after an upgrade the old id is not taken for the new schema."""
    return f"{subject}#{zlib.crc32(avro.schema_text(record).encode()):08x}"


def _excerpt(answer: httpx.Response) -> str:
    return " ".join(answer.text.split())[:300]


def _expect_ok(answer: httpx.Response, what: str) -> None:
    if answer.status_code == 401 or answer.status_code == 403:
        raise Misconfigured(
            f"the schema registry refuses to {what} ({answer.status_code}); check HEADGATE_REGISTRY__USERNAME "
            "and HEADGATE_REGISTRY__PASSWORD"
        )
    if answer.status_code >= 400:
        raise Unreachable(f"the schema registry could not {what}: {answer.status_code} {_excerpt(answer)}")

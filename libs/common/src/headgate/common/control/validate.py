"""Documents to models: everything that can be said about one document without knowing the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from headgate.common import catalogue
from headgate.common.errors import Invalid, Misconfigured
from headgate.common.model import API_VERSION, Source, SourceSpec, Trigger
from headgate.common.model.kinds import EVENTS

from .documents import Document
from .fieldhelp import problems_of
from .problems import Path, Problem, did_you_mean
from .store import MODELS, Kind

FindProvider = Callable[[str], catalogue.Provider]


@dataclass(frozen=True)
class Wanted:
    """One valid document: what the user asks for, and where it is written."""

    kind: Kind
    spec: Trigger | Source
    document: Document

    @property
    def name(self) -> str:
        return self.spec.name

    def problem(self, path: Path, message: str, fix: str = "") -> Problem:
        return Problem(self.document.file, self.document.line(path), path, message, fix)


def validate(
    documents: list[Document], find_provider: FindProvider = catalogue.provider
) -> tuple[list[Wanted], list[Problem]]:
    """The documents that stand on their own, and what is wrong with the others."""
    wanted: list[Wanted] = []
    problems: list[Problem] = []
    for document in documents:
        one, wrong = _validate_one(document, find_provider)
        problems += sorted(wrong, key=lambda problem: problem.line)
        if one is not None:
            wanted.append(one)
    return wanted, problems


def _validate_one(document: Document, find_provider: FindProvider) -> tuple[Wanted | None, list[Problem]]:
    data = document.data
    if not isinstance(data, dict):
        fix = "start it with `apiVersion: headgate/v1` and `kind: Trigger`"
        return None, [Problem(document.file, document.line(()), (), "the document is no mapping", fix)]
    head = _head_problems(document, data)
    if head:
        return None, head
    kind: Kind = "Trigger" if data["kind"] == "Trigger" else "Source"
    model = MODELS[kind]
    try:
        spec: Trigger | Source | None = model.model_validate(data)
        problems = []
    except ValidationError as error:
        spec, problems = None, problems_of(error, model, document)
    # Providers are asked all the same: a user wants to hear everything at once.
    for path, written in _sources(data):
        problems += _source_problems(document, path, written, find_provider)
    return (Wanted(kind, spec, document) if spec and not problems else None), problems


def _head_problems(document: Document, data: dict[str, object]) -> list[Problem]:
    """apiVersion and kind come first: without them nothing else can be judged."""
    found = []
    for field, allowed in (("apiVersion", [API_VERSION]), ("kind", list(MODELS))):
        value = data.get(field)
        if field not in data:
            fix = (
                f"write `{field}: {allowed[0]}`"
                if len(allowed) == 1
                else f"write `kind: {' or '.join(allowed)}`"
            )
            found.append(Problem(document.file, document.line(()), (field,), "is missing", fix))
        elif value not in allowed:
            fix = did_you_mean(str(value), allowed)
            found.append(
                Problem(document.file, document.line((field,)), (field,), f"{value!r} is not known", fix)
            )
    return found


def _sources(data: dict[str, object]) -> Iterator[tuple[Path, dict[str, object]]]:
    """The sources that are written out in a document and name a provider."""
    listed = data.get("sources")
    places: list[tuple[Path, object]] = [((), data)]
    if data["kind"] == "Trigger":
        places = [(("sources", i), one) for i, one in enumerate(listed)] if isinstance(listed, list) else []
    for path, one in places:
        if isinstance(one, dict) and isinstance(one.get("provider"), str) and one["provider"]:
            yield path, one


def _unknown_provider(
    document: Document, path: Path, name: str, find_provider: FindProvider
) -> list[Problem]:
    try:
        find_provider(name)
    except Invalid as error:
        message, _, fix = str(error).partition("; ")
        at = (*path, "provider")
        return [Problem(document.file, document.line(at), at, message, fix)]
    return []


def _source_problems(
    document: Document, path: Path, written: dict[str, object], find_provider: FindProvider
) -> list[Problem]:
    """What the source's provider says about its settings and its schedule."""
    name = str(written["provider"])
    if name == EVENTS:
        return []
    unknown = _unknown_provider(document, path, name, find_provider)
    if unknown:
        return unknown
    provider = find_provider(name)
    problems = _schedule_problems(document, path, written, provider)
    config_at = (*path, "query" if "query" in written else "config")
    config = written.get(str(config_at[-1]), {})
    if isinstance(config, dict):
        try:
            provider.config.model_validate(config)
        except ValidationError as error:
            problems += problems_of(error, provider.config, document, config_at)
    return problems


def _schedule_problems(
    document: Document, path: Path, written: dict[str, object], provider: catalogue.Provider
) -> list[Problem]:
    def problem(field: str, message: str, fix: str = "") -> Problem:
        at = (*path, *field.split("."))
        return Problem(document.file, document.line(at), at, message, fix)

    schedule = written.get("schedule")
    if provider.needs_schedule and schedule is None:
        message = f"provider {provider.name} needs a schedule"
        return [problem("schedule", message, "write `schedule: {every: 1m}`")]
    if provider.shape == "hook" and schedule is not None:
        message = f"provider {provider.name} is called, it asks for nothing"
        return [problem("schedule", message, "remove schedule")]
    if provider.shape == "poll" and isinstance(schedule, dict) and "cron" in schedule:
        message = f"provider {provider.name} asks at intervals"
        return [problem("schedule.cron", message, "write `every: 1m` instead")]
    if provider.check is not None:
        fields = {name: value for name, value in written.items() if name in SourceSpec.model_fields}
        try:
            provider.check(SourceSpec.model_validate(fields))
        except ValidationError:
            return []  # said already, with its line
        except Misconfigured as error:
            field, _, message = str(error).partition(": ")
            return [problem(field, message)]
    return []

"""Documents to models: everything that can be said about one document without knowing the others."""

from __future__ import annotations

from collections.abc import Callable
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
        spec = model.model_validate(data)
    except ValidationError as error:
        # Providers are looked at all the same: a user wants to hear everything at once.
        return None, [
            *problems_of(error, model, document),
            *_provider_problems_of_data(document, find_provider),
        ]
    problems = [
        problem
        for path, source in _sources(spec)
        for problem in _source_problems(document, path, source, find_provider)
    ]
    return (None if problems else Wanted(kind, spec, document)), problems


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


def _sources(spec: Trigger | Source) -> list[tuple[Path, SourceSpec]]:
    if isinstance(spec, Source):
        return [((), spec)]
    return [(("sources", i), source) for i, source in enumerate(spec.sources) if source.source is None]


def _provider_problems_of_data(document: Document, find_provider: FindProvider) -> list[Problem]:
    """Provider names of a document that is invalid otherwise."""
    data = document.data
    assert isinstance(data, dict)  # noqa: S101 - checked by the caller
    listed = data.get("sources")
    places: list[tuple[Path, object]] = [((), data)]
    if data.get("kind") == "Trigger":
        places = [(("sources", i), one) for i, one in enumerate(listed)] if isinstance(listed, list) else []
    problems = []
    for path, one in places:
        name = one.get("provider") if isinstance(one, dict) else None
        if isinstance(name, str) and name and name != EVENTS:
            problems += _unknown_provider(document, path, name, find_provider)
    return problems


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
    document: Document, path: Path, source: SourceSpec, find_provider: FindProvider
) -> list[Problem]:
    """What the source's provider says about its settings."""
    if source.provider == EVENTS:
        return []
    unknown = _unknown_provider(document, path, source.provider, find_provider)
    if unknown:
        return unknown
    provider = find_provider(source.provider)

    def problem(field: str, message: str, fix: str = "") -> Problem:
        at = (*path, *field.split("."))
        return Problem(document.file, document.line(at), at, message, fix)

    found = []
    if provider.needs_schedule and source.schedule is None:
        need = "needs a schedule"
        found.append(problem("schedule", f"provider {provider.name} {need}", "write `schedule: {every: 1m}`"))
    if provider.shape == "hook" and source.schedule is not None:
        found.append(
            problem("schedule", f"provider {provider.name} is called, it asks for nothing", "remove schedule")
        )
    if provider.shape == "poll" and source.schedule is not None and source.schedule.cron is not None:
        asks = "asks at intervals"
        found.append(
            problem("schedule.cron", f"provider {provider.name} {asks}", "write `every: 1m` instead")
        )
    if provider.check is not None:
        try:
            provider.check(source)
        except Misconfigured as error:
            field, _, message = str(error).partition(": ")
            found.append(problem(field, message))
    config_at = (*path, "query" if (*path, "query") in document.lines else "config")
    try:
        provider.config.model_validate(source.config)
    except ValidationError as error:
        found += problems_of(error, provider.config, document, config_at)
    return found

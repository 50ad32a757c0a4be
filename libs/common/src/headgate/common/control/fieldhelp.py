"""Turns what pydantic says about a document into problems that name the line and the fix.

What may stand at a place is read from the model's own JSON Schema, so a new field is known here at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from headgate.common.model.jsonschema import json_schema

from .documents import Document
from .problems import Path, Problem, did_you_mean

Schema = dict[str, Any]


class _Unsaid:
    """Stands for what was written where it is told where a secret is: it may be the secret itself."""

    def __repr__(self) -> str:
        return "what is written"


UNSAID = _Unsaid()


def problems_of(
    error: ValidationError, model: type[BaseModel], document: Document, prefix: Path = ()
) -> list[Problem]:
    """One problem for each thing pydantic refused; `prefix` is where the model's data stands in the document."""
    schema = json_schema(model)
    data = _at(document.data, prefix)
    found: dict[tuple[Path, str], Problem] = {}
    details = error.errors(include_url=False)
    for detail in details:
        here = detail["loc"]
        inside = any(other["loc"][: len(here)] == here for other in details if other is not detail)
        if detail["type"] == "too_short" and inside:
            continue  # pydantic counts only the valid items: the invalid ones are the problem
        path = _written(detail["loc"], data)
        message, fix = _say(str(detail["type"]), dict(detail), path, schema)
        at = prefix + path
        # A missing field has no line of its own: the parent's is where it belongs.
        line = document.line(at[:-1] if detail["type"] == "missing" else at)
        found.setdefault((at, message), Problem(document.file, line, at, message, fix))
    return sorted(found.values(), key=lambda problem: (problem.line, problem.field))


def _at(data: object, path: Path) -> object:
    for part in path:
        if isinstance(data, list):
            data = data[part] if isinstance(part, int) else None
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data


def _written(loc: tuple[int | str, ...], data: object) -> Path:
    """The location without the names pydantic adds for union members: only what the user can see.

    The last part stays when nothing of that name was written: it is the field that is missing.
    """
    path: list[str | int] = []
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int):
            data = data[part] if part < len(data) else None
        elif not (last and isinstance(data, dict) and isinstance(part, str) and part.isidentifier()):
            continue
        path.append(part)
    return tuple(path)


def _say(kind: str, detail: dict[str, Any], path: Path, schema: Schema) -> tuple[str, str]:
    context = detail.get("ctx", {})
    given = UNSAID if "secrets" in path else detail.get("input")
    name = str(path[-1]) if path else "document"
    match kind:
        case "extra_forbidden":
            return "unknown field", did_you_mean(name, known_fields(schema, path[:-1]))
        case "missing":
            return "is missing", f"write `{name}: {_example(schema, path)}`"
        case "union_tag_invalid":
            expected = [tag.strip(" '\"") for tag in str(context.get("expected_tags", "")).split(",")]
            return f"{context.get('tag')!r} is not known here", did_you_mean(
                str(context.get("tag")), expected
            )
        case "literal_error" | "enum":
            expected = [
                word.strip(" '\"")
                for word in str(context.get("expected", "")).replace(" or ", ", ").split(",")
            ]
            return f"{given!r} is not known here", did_you_mean(str(given), expected)
        case "string_pattern_mismatch":
            return f"{_short(given)} does not fit here", _wanted(schema, path, str(context.get("pattern")))
        case "value_error" | "assertion_error":
            return _sentence(str(context.get("error") or detail["msg"])), ""
    shown = "" if given is None or isinstance(given, dict | list | _Unsaid) else f" (it is {_short(given)})"
    if kind.endswith(("_type", "_parsing", "_attributes_type")):
        return _sentence(str(detail["msg"])) + shown, f"write `{name}: {_example(schema, path)}`"
    return _sentence(str(detail["msg"])) + shown, ""


def _sentence(text: str) -> str:
    text = text.removeprefix("Value error, ").removeprefix("Input ").strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def known_fields(schema: Schema, path: Path) -> set[str]:
    """Names of the fields that may stand in the object at `path`."""
    return {name for place in _places(schema, path) for name in place.get("properties", {})}


def _example(schema: Schema, path: Path) -> str:
    for place in _places(schema, path):
        examples = place.get("examples") or ([place["default"]] if place.get("default") is not None else [])
        if examples and not isinstance(examples[0], dict | list):
            return str(examples[0])
        if "const" in place:
            return str(place["const"])
        if "enum" in place:
            return "|".join(str(value) for value in place["enum"])
        hint = {"object": "{...}", "array": "[...]", "boolean": "true", "integer": "1", "number": "1"}.get(
            str(place.get("type")), ""
        )
        if hint:
            return hint
    return "..."


def _wanted(schema: Schema, path: Path, pattern: str) -> str:
    """What a text must look like: in words and with an example where the model has them."""
    place = next((place for place in _places(schema, path) if place.get("pattern") == pattern), {})
    example = "".join(f", as {value}" for value in place.get("examples", [])[:1])
    words = str(place.get("description") or f"its pattern is {pattern}").rstrip(".")
    return f"{words[:1].lower()}{words[1:]}{example}"


def _places(schema: Schema, path: Path) -> list[Schema]:
    """Every schema that may describe the value at `path`: all members of unions are followed."""
    places = list(_members(schema, schema))
    for part in path:
        places = [
            member
            for place in places
            for child in _children(place, part)
            for member in _members(schema, child)
        ]
    return places


def _children(place: Schema, part: str | int) -> Iterator[Schema]:
    if isinstance(part, int):
        if isinstance(place.get("items"), dict):
            yield place["items"]
    elif part in place.get("properties", {}):
        yield place["properties"][part]
    elif isinstance(place.get("additionalProperties"), dict):
        yield place["additionalProperties"]


def _members(root: Schema, place: Schema, depth: int = 0) -> Iterator[Schema]:
    if depth > 8:
        return
    if "$ref" in place:
        name = str(place["$ref"]).rsplit("/", 1)[-1]
        yield from _members(root, root.get("$defs", {}).get(name, {}), depth + 1)
        return
    choices = place.get("anyOf", []) + place.get("oneOf", []) + place.get("allOf", [])
    if choices:
        for choice in choices:
            yield from _members(root, choice, depth + 1)
    if not choices or "properties" in place:
        yield place

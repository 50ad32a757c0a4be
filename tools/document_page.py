"""The reference page of a kind of document: every field, from its model's JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from headgate.common.model.jsonschema import json_schema

Schema = dict[str, Any]


def sections(model: type[BaseModel]) -> Iterator[str]:
    """Lines of Markdown: a table for the document itself, then one for each part of it."""
    schema = json_schema(model)
    yield from _section(schema, schema, "")


def _section(root: Schema, node: Schema, path: str) -> Iterator[str]:
    if path:
        yield from ("", f"## `{path}`", "", node.get("description", ""), "")
    if not node["properties"]:
        yield f"Nothing to set: `{path.rpartition('.')[2]}: {{}}`."
        return
    yield from ("| field | needed | default | example | meaning |", "|---|---|---|---|---|")
    required = set(node.get("required", ()))
    parts: list[tuple[str, Schema]] = []
    for name, field in node["properties"].items():
        part, many = _part(root, field)
        default = "" if name in required or part else _code(field.get("default"))
        examples = field.get("examples") or ([] if part else _inner(field).get("examples", []))
        example = "" if part else _code(examples[0] if examples else None)
        meaning = str(field.get("description", "")) + _choices(root, field)
        if part:
            meaning = (meaning or part.get("description", "")) + " Its fields are below."
            parts.append((f"{path}.{name}".removeprefix(".") + ("[]" if many else ""), part))
        needed = "yes" if name in required or "const" in field else "no"
        yield f"| `{name}` | {needed} | {default} | {example} | {meaning.strip()} |"
    for below, part in parts:
        yield from _section(root, part, below)


def _part(root: Schema, field: Schema) -> tuple[Schema | None, bool]:
    """The object that stands in a field, if one does; and whether a list of them."""
    inner = _inner(field)
    many = inner.get("type") == "array"
    reference = (inner.get("items", {}) if many else inner).get("$ref")
    if reference is None:
        return None, many
    found: Schema = root["$defs"][reference.rpartition("/")[2]]
    return (found, many) if "properties" in found else (None, many)


def _inner(field: Schema) -> Schema:
    """Without null, where that is the only other thing it may be."""
    others = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    return others[0] if len(others) == 1 else field


def _choices(root: Schema, field: Schema) -> str:
    """Where only some values may stand: those, and the fields of an object that may stand instead."""
    choices: list[str] = []
    for one in field.get("anyOf", [field]):
        choices += one.get("enum", ())
        if choices and "$ref" in one:
            fields = root["$defs"][one["$ref"].rpartition("/")[2]]["properties"]
            choices += (f"{{{name}: {_example(about)}}}" for name, about in fields.items())
    return " One of " + ", ".join(f"`{choice}`" for choice in choices) + "." if choices else ""


def _example(field: Schema) -> str:
    return str(field["examples"][0]) if field.get("examples") else "..."


def _code(value: object) -> str:
    if value is None or value in ("", {}, []):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`".replace("|", "\\|")

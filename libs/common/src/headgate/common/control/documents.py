"""YAML documents that remember which line each of their fields stands on.

The data model is JSON's: `on`, `no` and dates stay the text that was written, so that what a user reads in
the file is what the model gets. Aliases and merge keys work; a file that expands without end does not.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .problems import Path as FieldPath
from .problems import Problem

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
SUFFIXES = (".yaml", ".yml")
"""What is looked for in a folder. A .json file is read when it is named: folders hold payloads too."""


@dataclass(frozen=True)
class Document:
    """One YAML document: its data, and the line of every field by its path."""

    file: str
    data: object
    lines: dict[FieldPath, int]

    def line(self, path: Iterable[str | int]) -> int:
        """The line of a field, or of the nearest parent that was written."""
        parts = tuple(path)
        while parts and parts not in self.lines:
            parts = parts[:-1]
        return self.lines.get(parts, 1)


@dataclass(frozen=True)
class Loaded:
    """What was read: the documents, and what kept others from being read."""

    documents: list[Document]
    problems: list[Problem]


class _Loader(yaml.SafeLoader):
    """SafeLoader with JSON's scalars: true/false, numbers, null; everything else is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def flatten_mapping(self, node: MappingNode) -> None:
        """Merge keys are expanded by PyYAML before a reader can count: count here, before it does."""
        size = 0
        for key, value in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                continue
            for one in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(one, MappingNode):
                    self.flatten_mapping(one)
                    size += len(one.value)
                if size > MAX_NODES:
                    raise _TooLarge(f"its merge keys expand to more than {MAX_NODES} nodes")
        super().flatten_mapping(node)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def load(paths: Iterable[str]) -> Loaded:
    """Reads files, folders (recursively, in name order) and `-` for stdin."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for name, text in _texts(paths, problems):
        loaded = parse(text, name)
        documents += loaded.documents
        problems += loaded.problems
    return Loaded(documents, problems)


def _texts(paths: Iterable[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path == "-":
            try:
                yield "<stdin>", sys.stdin.read(MAX_FILE_BYTES + 1)
            except UnicodeDecodeError as error:
                problems.append(_unreadable("<stdin>", error))
            continue
        files = _files(Path(path))
        if not files:
            problems.append(
                Problem(
                    path,
                    0,
                    (),
                    "no such file, or a folder without any .yaml or .yml",
                    "check the path",
                )
            )
        for file in files:
            try:
                with file.open(encoding="utf-8") as stream:
                    yield str(file), stream.read(MAX_FILE_BYTES + 1)
            except (OSError, UnicodeDecodeError) as error:
                problems.append(_unreadable(str(file), error))


def _unreadable(file: str, error: Exception) -> Problem:
    return Problem(file, 0, (), f"cannot be read: {error}", "write it as UTF-8 text")


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return [path] if path.exists() else []


def parse(text: str, file: str = "<text>") -> Loaded:
    """Every document of one text. A syntax error ends the file, the documents before it are kept."""
    if len(text) > MAX_FILE_BYTES:
        return Loaded(
            [],
            [Problem(file, 0, (), f"is larger than {MAX_FILE_BYTES} bytes", "split it into several files")],
        )
    documents: list[Document] = []
    problems: list[Problem] = []
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            reader = _Reader(file, loader, problems)
            data = reader.read(node, ())
            if data is not None:
                documents.append(Document(file, data, reader.lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        problems.append(
            Problem(file, line, (), f"is not YAML: {error.problem or error.context}", _yaml_hint(error))
        )
    except yaml.YAMLError as error:
        problems.append(
            Problem(
                file, 0, (), f"is not YAML: {error}", "save it as plain UTF-8 text without control characters"
            )
        )
    except _TooLarge as error:
        problems.append(Problem(file, 0, (), f"cannot be used: {error}", "write out what it means"))
    except RecursionError:
        problems.append(Problem(file, 0, (), "is nested too deeply", "a document needs a few levels only"))
    finally:
        if loader is not None:
            loader.dispose()
    return Loaded(documents, problems)


def _yaml_hint(error: yaml.MarkedYAMLError) -> str:
    said = f"{error.problem} {error.context}"
    if "\\t" in said:
        return "indent with spaces, YAML refuses tabs"
    if "mapping values are not allowed" in said:
        return "put text that contains ': ' in quotes, or fix the indentation"
    return "check indentation and quotes at that line"


_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class _TooLarge(Exception):
    pass


def _joined(text: str) -> str:
    """JSON escapes a character beyond 16 bits as a pair, which YAML reads as two. Half of one alone is no
    text: no topic could hold it."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("half a character (\\ud800 to \\udfff without the other half)") from None


class _Reader:
    """Turns one node tree into data, noting lines on the way."""

    def __init__(self, file: str, loader: _Loader, problems: list[Problem]) -> None:
        self.lines: dict[FieldPath, int] = {}
        self._file = file
        self._loader = loader
        self._problems = problems
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._left = MAX_NODES

    def read(self, node: Node, path: FieldPath) -> object:
        self._left -= 1
        if self._left < 0:
            raise _TooLarge(f"its aliases expand to more than {MAX_NODES} nodes")
        if id(node) in self._open:
            raise _TooLarge("an alias contains itself")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if node.tag not in _COLLECTIONS:
            self._refuse(node, path, f"the tag {node.tag} is not used here")
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
            assert isinstance(node, MappingNode)  # noqa: S101 - the three node kinds of YAML
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: ScalarNode, path: FieldPath) -> object:
        try:
            value = self._loader.construct_object(node)
            if isinstance(value, float) and not math.isfinite(value):
                what = f"{node.value} is larger than any number here"
            elif value is None or isinstance(value, str | int | float | bool):
                return _joined(value) if isinstance(value, str) else value
            else:
                what = f"the tag {node.tag} is not used here"
        except (yaml.constructor.ConstructorError, ValueError) as error:
            what = str(getattr(error, "problem", None) or error)
        self._refuse(node, path, what)
        return None

    def _key(self, node: Node, path: FieldPath) -> str:
        try:
            if isinstance(node, ScalarNode):
                return _joined(str(node.value))
            what = "a list or mapping cannot be a key"
        except ValueError as error:
            what = f"a key holds {error}"
        self._refuse(node, path, what)
        return "?"

    def _refuse(self, node: Node, path: FieldPath, what: str) -> None:
        line = node.start_mark.line + 1
        self._problems.append(
            Problem(self._file, line, path, what, "write plain text, numbers, lists and mappings")
        )

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[str, object]:
        # An alias brings the same node again, by then flattened: what it overrides was no repetition.
        written = set() if id(node) in self._seen else {id(key) for key, _ in node.value}
        self._seen.add(id(node))
        self._loader.flatten_mapping(node)
        result: dict[str, object] = {}
        own: set[str] = set()
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            line = key_node.start_mark.line + 1
            if key in own:
                self._problems.append(
                    Problem(self._file, line, (*path, key), "is written twice", "keep one of the two")
                )
            if id(key_node) in written:
                own.add(key)
            self.lines[(*path, key)] = line
            result[key] = self.read(value_node, (*path, key))
        return result

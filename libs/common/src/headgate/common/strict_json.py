"""JSON as strangers may send it: one meaning only, and bounded before it costs anything.

Refused besides what is no JSON at all: names given twice in one object (parsers disagree on which one counts),
NaN and Infinity, numbers beyond a double, lone surrogates, and documents that are too deep or have too many values.

Ordinary documents pass on counts that C code makes; Python walks the values only of those that come near a limit.
"""

from dataclasses import dataclass
from re import compile as pattern
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class JsonLimits:
    depth: int = 64  # containers around a value, its own container included
    nodes: int = 100_000  # values, containers included
    names: int = 10_000  # names in one object


DEFAULT_LIMITS = JsonLimits()
DEEPEST = 254
"""No limit of depth may be larger: documents are written again to be counted, and orjson writes none that is deeper."""
NO_MARK = bytes(set(range(256)) - set(b"{[,:"))
STRING = pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?')
"""A string, or the rest where it does not end. It matches at every quote: were an open end no match, each quote after
it would be tried anew and to the end, and 100 kB of `\\"` would take a minute."""


class NotStrictJson(ValueError):
    """The bytes are not JSON that we take; the message says why, without quoting them."""


def loads(data: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> Any:
    """The document in `data`; `NotStrictJson` when it has none, or more than one reading."""
    marks = data.translate(None, NO_MARK)  # one pass over the bytes; what is counted next is short
    containers = marks.count(b"{") + marks.count(b"[")
    most = containers + marks.count(b",") + 1  # no document has more values than this
    if most > limits.nodes:
        _refuse_too_many(data, limits)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotStrictJson(f"not JSON: {error.msg} at byte {error.pos}") from None
    if containers > limits.depth or most > limits.names:
        measure(document, limits)
    # A repeated name leaves one colon fewer when the document is written again. An escaped colon could make up
    # for it, so a document that escapes any takes the exact way.
    if marks.count(b":") != orjson.dumps(document).count(b":") or (b"\\" in data and b"\\u003" in data):
        _refuse_repeated_names(data, document)
    return document


def _refuse_too_many(data: bytes, limits: JsonLimits) -> None:
    """Count outside strings, before anything is built: a megabyte of `[[],[],` is half a million lists."""
    bare = STRING.sub(b"", data)
    if bare.count(b"{") + bare.count(b"[") + bare.count(b",") + 1 > limits.nodes:
        raise NotStrictJson(f"more than {limits.nodes} values")


def measure(document: Any, limits: JsonLimits = DEFAULT_LIMITS) -> None:
    """Refuse what is too deep, or has an object with too many names."""
    level, depth = [document], 0
    while level := [value for value in level if type(value) is dict or type(value) is list]:
        depth += 1
        if depth > limits.depth:
            raise NotStrictJson(f"nested deeper than {limits.depth} levels")
        inner: list[Any] = []
        for container in level:
            if type(container) is dict:
                if len(container) > limits.names:
                    raise NotStrictJson(f"an object with more than {limits.names} names")
                inner += container.values()
            else:
                inner += container
        level = inner


def _refuse_repeated_names(data: bytes, document: Any) -> None:
    """Colons outside strings are names as written; the document holds the names as read."""
    written = STRING.sub(b"", data).count(b":")
    read, rest = 0, [document]
    while rest:
        value = rest.pop()
        if type(value) is dict:
            read += len(value)
            rest += value.values()
        elif type(value) is list:
            rest += value
    if read != written:
        raise NotStrictJson("a name appears twice in one object")

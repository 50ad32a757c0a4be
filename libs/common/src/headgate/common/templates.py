"""Templates in an action's body and headers: `{{ event.data.id }}`, over structure.

Expressions only, in minijinja: no statements, no Python attributes or methods, no filter that turns a
little into a lot. A string that is one expression keeps the value's JSON type; anything else is text.
An event decides what is filled in, never what is evaluated: its strings are values, not templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from minijinja import Environment, TemplateError

from headgate.common.conditions import EVENT_FIELDS, no_such_field
from headgate.common.errors import Poison

NAMES = {
    "event": EVENT_FIELDS | {"received_at"},
    "run": frozenset(["id", "trigger", "revision"]),
}
"""What a template can speak of, and the fields that has."""
MAX_OUTPUT = 256 * 1024
"""Characters that all templates of one action may produce together."""
MAX_TEMPLATE = 4096
FUEL = 10_000
MAX_DEPTH = 32
_MAX_JOINS = 20
"""`~` and `+` in one template: each may add the longest string of the event once more."""

_FILTERS = frozenset(
    [
        "abs",
        "bool",
        "capitalize",
        "count",
        "d",
        "default",
        "e",
        "escape",
        "first",
        "float",
        "int",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "select",
        "selectattr",
        "sort",
        "split",
        "string",
        "sum",
        "title",
        "tojson",
        "trim",
        "truncate",
        "unique",
        "upper",
        "urlencode",
    ]
)
_BUILT_IN = frozenset(
    [
        "attr",
        "batch",
        "chain",
        "dictsort",
        "format",
        "groupby",
        "indent",
        "items",
        "lines",
        "pprint",
        "safe",
        "slice",
        "wordwrap",
        "zip",
        "filesizeformat",
        "pluralize",
        "striptags",
    ]
)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def _unknown(path: str) -> str | None:
    """Why nothing ever stands at `event.data.x`, or None when something may."""
    name, _, rest = path.partition(".")
    field = rest.partition(".")[0]
    if name not in NAMES:
        return f"there is no {name} in templates; there are: {', '.join(sorted(NAMES))}"
    if not field or field in NAMES[name]:
        return None
    if name == "event":
        return no_such_field(field)
    return f"{name} has no field {field}; there are: {', '.join(sorted(NAMES[name]))}"


class TemplateRefused(Poison):
    """A template cannot be filled in for this event. Says which one, and why."""

    code = "template-error"


class _Fields(dict[str, Any]):
    """A JSON object without any of dict's methods: `event.data.items` is the field or nothing."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise AttributeError(name)


class _Items(list[Any]):
    """A JSON array, likewise."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise AttributeError(name)


def values(value: Any) -> Any:
    """JSON as templates may see it."""
    if isinstance(value, dict):
        return _Fields((str(key), values(one)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return _Items(values(one) for one in value)
    return value


class Templates:
    """Fills in templates. One for a loop: it keeps the state of the template at work."""

    def __init__(self) -> None:
        self._outputs: list[Any] = []
        self._left = MAX_OUTPUT
        self._environment = environment = Environment(
            undefined_behavior="strict",
            fuel=FUEL,
            debug=True,  # names the undefined field; the dump of variables that comes with it is not shown
            pycompat=False,
            keep_trailing_newline=True,
            auto_escape_callback=lambda _: False,
            finalizer=self._output,
        )
        environment.block_start_string, environment.block_end_string = "\x00%", "%\x00"
        environment.comment_start_string, environment.comment_end_string = "\x00#", "#\x00"
        for name in _BUILT_IN:
            environment.remove_filter(name)
        for name in ("range", "dict", "namespace", "debug"):
            environment.add_global(name, None)
        environment.add_filter("tojson", lambda value: _json(value))
        environment.add_filter("replace", _replace)
        environment.add_filter("join", _join)

    def fill(self, structure: Any, context: Mapping[str, Any], where: str) -> Any:
        """`structure` with its strings filled in from `context` (made by `values`)."""
        self._left = MAX_OUTPUT
        return self._walk(structure, context, where, 0)

    def _walk(self, node: Any, context: Mapping[str, Any], where: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise TemplateRefused(f"{where} is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, str):
            return self._string(node, context, where)
        if isinstance(node, Mapping):
            return {
                str(key): self._walk(one, context, f"{where}.{key}", depth + 1) for key, one in node.items()
            }
        if isinstance(node, list | tuple):
            return [
                self._walk(one, context, f"{where}[{index}]", depth + 1) for index, one in enumerate(node)
            ]
        return node

    def problem(self, template: str) -> str | None:
        """Why a template would fail for every event; None when it may do."""
        if "{{" not in template and "{%" not in template:
            return None
        refused = refusal(template)
        if refused:
            return refused
        try:
            self._environment.add_template("template", template)
            asked = self._environment.undeclared_variables_in_str(template, nested=True)
        except TemplateError as error:
            return f"the template is not valid: {error.detail or error.kind}"
        return next((problem for path in sorted(asked) if (problem := _unknown(path))), None)

    def _string(self, template: str, context: Mapping[str, Any], where: str) -> Any:
        if "{{" not in template and "{%" not in template:
            return template
        problem = refusal(template)
        if problem:
            raise TemplateRefused(f"{where}: {problem}")
        self._outputs.clear()
        try:
            text = self._environment.render_str(template, where, **context)
        except TemplateError as error:
            raise TemplateRefused(f"{where}: {error.detail or error.kind}") from None
        except AttributeError as error:
            raise TemplateRefused(f"{where}: values have no method {error}") from None
        if len(self._outputs) == 1:
            value = self._outputs[0]
            if text == _text(value):
                return _plain(value, where)
        return text

    def _output(self, value: Any) -> str:
        """Called with every `{{ ... }}` value: the one place where its type is still known."""
        text = _text(value)
        self._left -= len(text)
        if self._left < 0:
            raise TemplateRefused(f"the templates produce more than {MAX_OUTPUT} characters")
        self._outputs.append(value)
        return text


@lru_cache(maxsize=1024)
def refusal(template: str) -> str | None:
    """Why a template is not accepted, before any event is seen; None when it may be."""
    if len(template) > MAX_TEMPLATE:
        return f"a template has at most {MAX_TEMPLATE} characters, this one {len(template)}"
    if "{%" in template:
        return "statements ({% ... %}) are not supported; write {{ a if condition else b }}"
    operators = "".join(
        _STRING.sub("", inside) for inside in _EXPRESSION.findall(_STRING.sub("''", template))
    )
    if "*" in operators:
        return "multiplication is not supported in templates"
    if operators.count("~") + operators.count("+") > _MAX_JOINS:
        return f"more than {_MAX_JOINS} joins (~, +) in one template"
    for name in re.findall(r"\|\s*([A-Za-z_]\w*)", operators):
        if name not in _FILTERS:
            return f"no filter named {name}; there are: {', '.join(sorted(_FILTERS))}"
    return None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(_unwrapped(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise TemplateRefused("a template gives something that is no JSON value") from None


def _plain(value: Any, where: str) -> Any:
    """Without our wrappers, and surely JSON."""
    try:
        return json.loads(_json(value))
    except TemplateRefused as problem:
        raise TemplateRefused(f"{where}: {problem}") from None


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unwrapped(one) for key, one in dict.items(value)}
    if isinstance(value, list | tuple):
        return [_unwrapped(one) for one in value]
    return value


def _replace(value: Any, old: str, new: str) -> str:
    text = _text(value)
    if len(text) + text.count(str(old)) * len(str(new)) > MAX_OUTPUT:
        raise TemplateRefused(f"replace would give more than {MAX_OUTPUT} characters")
    return text.replace(str(old), str(new))


def _join(value: Any, separator: str = "") -> str:
    parts = [_text(one) for one in value]
    if sum(map(len, parts)) + len(separator) * len(parts) > MAX_OUTPUT:
        raise TemplateRefused(f"join would give more than {MAX_OUTPUT} characters")
    return separator.join(parts)

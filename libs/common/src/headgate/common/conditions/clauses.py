"""Take a CEL condition apart where `&&` joins it, to name the clause that said no. Text in, text out:
the library that evaluates keeps its syntax tree to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
  | (?P<comment>//[^\n]*)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<operator>&&|\|\||==|!=|<=|>=|<|>|\?|\bin\b)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS = frozenset({"==", "!=", "<=", ">=", "<", ">", "in"})


def _top_level(source: str) -> Iterator[tuple[str, int, int]]:
    """Operators outside every bracket and string: (operator, start, end)."""
    depth = 0
    for match in _TOKEN.finditer(source):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif match["operator"] and depth == 0:
            yield match["operator"], match.start(), match.end()


def conjuncts(source: str) -> list[str]:
    """The clauses that must all hold. One clause where the top level is no plain `&&` chain."""
    operators = list(_top_level(source))
    if any(operator in ("||", "?") for operator, _, _ in operators):
        return [source.strip()]
    parts, start = [], 0
    for operator, begin, end in operators:
        if operator == "&&":
            parts.append(source[start:begin].strip())
            start = end
    parts.append(source[start:].strip())
    return parts


def compared(clause: str) -> str | None:
    """The left side of a clause that compares: what to show as the actual value. None for other clauses."""
    operators = list(_top_level(clause))
    if len(operators) == 1 and operators[0][0] in _COMPARISONS:
        operator, begin, end = operators[0]
        return clause[end:].strip() if operator == "in" else clause[:begin].strip()
    return None


def depth(source: str) -> int:
    """How deep brackets nest."""
    deepest = level = 0
    for match in _TOKEN.finditer(source):
        if match["open"]:
            level += 1
            deepest = max(deepest, level)
        elif match["close"]:
            level -= 1
    return deepest

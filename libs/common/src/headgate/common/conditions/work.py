"""How much work an expression may be for one event.

The library counts the rounds of its loops, not what is done in one: a long text searched once a round took half a
minute, and all that time nothing else in the process ran. So a loop that looks at more than its own item in each
round is refused for an event with which that could come to too much.
"""

from __future__ import annotations

import re

from headgate.common.conditions.tree import Call, Items, Loop, Name, Node, Select

MOST_BYTES = 200_000_000
"""Looked at in one loop: half a second of searching."""
_MOST_ROUNDS = 10_000
"""After so many the library itself stops."""
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(")


def looks_around(source: str, node: Node | None) -> bool:
    """Whether a loop in it looks at more in each round than that round's item. Where there is no tree: any loop."""
    return _LOOP.search(source) is not None if node is None else any(_around(one) for one in _loops(node))


def too_much(data: str) -> str | None:
    """What such a loop may come to with this event's data, in words; None when that is little enough."""
    rounds = min(data.count(",") + 1, _MOST_ROUNDS)
    if rounds * len(data) <= MOST_BYTES:
        return None
    return f"{rounds} rounds of a loop may each look at {len(data)} bytes; look only at the loop's own item in it"


def _around(loop: Loop) -> bool:
    """What it runs over is looked at once; it is the first of its steps."""
    return any(not _free(step) <= loop.names for step in loop.steps[1:])


def _loops(node: Node) -> list[Loop]:
    found = [node] if isinstance(node, Loop) else []
    return found + [loop for part in _parts(node) for loop in _loops(part)]


def _free(node: Node) -> frozenset[str]:
    """The names it takes from outside."""
    if isinstance(node, Name):
        return frozenset({node.name})
    inner = frozenset[str]().union(*(_free(part) for part in _parts(node)))
    return inner - node.names if isinstance(node, Loop) else inner


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand):
            return (operand,)
        case Call(_, parts) | Items(parts) | Loop(_, parts):
            return parts
    return ()

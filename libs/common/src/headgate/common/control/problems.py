"""What is wrong with a document: where, which field, what happened, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that keeps a document from being accepted. `line` 0 means the file as a whole."""

    file: str
    line: int
    path: Path
    message: str
    fix: str = ""

    @property
    def field(self) -> str:
        return dotted(self.path)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        field = f" {self.field}:" if self.path else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"{where}:{field} {self.message}{fix}"


def dotted(path: Iterable[str | int]) -> str:
    """`sources[0].query.user_id`"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean "provider"?`, or the list of what there is when nothing is near."""
    names = sorted(set(known))
    folded = {name.casefold().replace("_", "-"): name for name in names}
    near = difflib.get_close_matches(word.casefold().replace("_", "-"), folded, n=1, cutoff=0.6)
    if near:
        return f'did you mean "{folded[near[0]]}"?'
    if not names:
        return "there are none"
    return "known are: " + ", ".join(names)

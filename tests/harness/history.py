"""What the harness did and what it was answered, one JSON line each, on disk before the next step is taken.

`invoke` is written before a request leaves. The answer decides what was promised: `ok` is a durable promise (2xx, or a
broker's ack), `fail` a refusal that must never run, `info` a silence or a 503 after which both outcomes are legal.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Type = Literal["invoke", "ok", "fail", "info"]


class History:
    """An append-only file, synced line by line: a crash of the harness itself loses no line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def write(self, proc: str, f: str, type_: Type, seq: int | None = None, **meta: Any) -> None:
        line = {"t": time.monotonic_ns(), "proc": proc, "f": f, "type": type_, "seq": seq, "meta": meta}
        os.write(self._file, json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def promises(lines: Iterator[dict[str, Any]]) -> tuple[set[int], set[int], set[int]]:
    """The sequence numbers (accepted, refused, unsure), the strongest word about each winning.

    A sighting that was retried has several answers: one `ok` promises, whatever the others said; an `info`, or an
    invocation without an answer, may have landed even when another attempt was refused.
    """
    asked: set[int] = set()
    words: dict[str, set[int]] = {"ok": set(), "fail": set(), "info": set()}
    pending: dict[int, int] = {}
    for line in lines:
        seq = line["seq"]
        if seq is None:
            continue
        if line["type"] == "invoke":
            asked.add(seq)
            pending[seq] = pending.get(seq, 0) + 1
        else:
            words[line["type"]].add(seq)
            pending[seq] -= 1
    silent = {seq for seq, open_ in pending.items() if open_ > 0}
    accepted = words["ok"]
    unsure = (words["info"] | silent) - accepted
    return accepted, words["fail"] - accepted - unsure, unsure

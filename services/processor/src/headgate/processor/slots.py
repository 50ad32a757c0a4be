"""A directory of local state for each process: two processors on one machine must not share one."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headgate.common.errors import Misconfigured

_MOST = 64


@dataclass(frozen=True)
class Slot:
    """A directory that is ours until the process ends, however it ends."""

    directory: Path
    lock: IO[bytes]


def take(base: Path) -> Slot:
    """The first free one of base/0, base/1, ...; what an earlier process left there is a head start."""
    for number in range(_MOST):
        directory = base / str(number)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = (directory / "lock").open("ab")
        except OSError as problem:
            raise Misconfigured(
                f"the state directory {directory} cannot be written: {problem.strerror}. Its volume needs room and "
                f"must belong to user {os.getuid()} (on Kubernetes: one that honours fsGroup), or name another "
                "in HEADGATE_STATE_DIR"
            ) from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        return Slot(directory, lock)
    raise Misconfigured(f"all {_MOST} state directories in {base} are in use; set HEADGATE_STATE_DIR")

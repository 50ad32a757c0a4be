"""Named places where a test may kill the process: `FAILPOINT=runner.started-before-record:3`.

Every step whose order carries a guarantee has one before the next step, so that a test can end the
process exactly there, as kill -9 would. Unset, a fail point costs one dict look-up.
"""

from __future__ import annotations

import os

EXIT_CODE = 137


def _parse(spec: str) -> dict[str, int]:
    points = {}
    for part in filter(None, spec.split(",")):
        name, _, count = part.partition(":")
        points[name] = int(count or 1)
    return points


_armed = _parse(os.environ.get("FAILPOINT", ""))


def failpoint(name: str) -> None:
    """End the process here, without any clean-up, the nth time this is reached."""
    left = _armed.get(name)
    if left is None:
        return
    if left <= 1:
        os._exit(EXIT_CODE)
    _armed[name] = left - 1


def armed(name: str) -> bool:
    """Whether a test armed this point: for a caller that must first bring about what the point claims."""
    return name in _armed

"""The one way in which the processor dies of a problem: at once, and before Faust can commit anything.

Faust acks what an agent fails on, swallows what recovery raises and commits while it stops. So nothing is
raised to it: the reason is logged and the process ends, as if killed, with status 1.
"""

from __future__ import annotations

import os
import sys

import structlog

log = structlog.get_logger(__name__)

EXIT_CODE = 1


def crash(problem: BaseException) -> None:
    """Does not return."""
    log.error(
        "The processor cannot go on and ends; nothing unfinished was committed. It reads that again when "
        "started anew.",
        problem=type(problem).__name__,
        reason=str(problem),
        exc_info=problem,
    )
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(EXIT_CODE)

"""Exit codes: what a script may rely on."""

from __future__ import annotations

from headgate.common.control.errors import NotFound, Refused
from headgate.common.errors import HeadgateError, Invalid, Misconfigured, Unreachable

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
INVALID = 4
UNREACHABLE = 5
REFUSED = 6
INTERRUPTED = 130

MEANING = {
    OK: "done",
    FAILURE: "failed, the message says why; also: a check found something wrong",
    USAGE: "the command line was not understood",
    NOT_FOUND: "no trigger, source, event, run, dead letter or topic of that name",
    INVALID: "a document is invalid; nothing was written",
    UNREACHABLE: "Kafka or the Schema Registry does not answer",
    REFUSED: "not done: it needs --yes, or something still depends on it",
    INTERRUPTED: "stopped by Ctrl-C",
}


def code_of(error: HeadgateError) -> int:
    for kind, code in (
        (NotFound, NOT_FOUND),
        (Refused, REFUSED),
        (Invalid, INVALID),
        (Unreachable, UNREACHABLE),
        (Misconfigured, FAILURE),
    ):
        if isinstance(error, kind):
            return code
    return FAILURE

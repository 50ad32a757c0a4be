"""What others may write to the topic of triggers."""

from __future__ import annotations

from typing import Any, cast

from headgate.common import fingerprints
from headgate.common.model import Stored, Trigger
from headgate.common.view import View
from headgate.processor.catalogue import Catalogue

SPEC = Trigger.model_validate(
    {"metadata": {"name": "t"}, "sources": [{"provider": "events"}], "action": {"local": {}}}
)


class Copy:
    """What a view holds."""

    version = 1

    def __init__(self, *stored: Stored[Trigger]) -> None:
        self._stored = stored

    def snapshot(self) -> dict[str, Stored[Trigger]]:
        return {one.name: one for one in self._stored}


def test_a_trigger_that_cannot_be_used_takes_no_other_along() -> None:
    good = Stored("good", fingerprints.uid("p", "trigger", "good"), 1, 0, "", SPEC)
    copy: Any = Copy(Stored("bad", "not-a-uid", 1, 0, "", SPEC), good)
    triggers = Catalogue(cast("View[Stored[Trigger]]", copy), 0)()
    assert triggers.get("bad") is None
    assert [one.name for one in triggers.candidates("events", "/shop", "t")] == ["good"]

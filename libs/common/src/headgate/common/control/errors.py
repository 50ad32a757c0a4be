"""Answers of the control plane that are errors without anything being broken."""

from __future__ import annotations

from headgate.common.errors import HeadgateError


class NotFound(HeadgateError):
    """There is nothing of that name. Says where to look."""


class Refused(HeadgateError):
    """It could be done, but something depends on it or a person has to confirm. Nothing was changed."""


class TooLarge(HeadgateError):
    """The broker will never take these records; the others of the same write are stored. `which` counts from 0."""

    def __init__(self, topic: str, which: set[int]) -> None:
        self.which = which
        super().__init__(
            f"{len(which)} record{'s are' if len(which) > 1 else ' is'} larger than {topic} takes "
            "(its max.message.bytes): make what you write smaller"
        )

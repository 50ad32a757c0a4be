"""Answers of the control plane that are errors without anything being broken."""

from __future__ import annotations

from headgate.common.errors import HeadgateError


class NotFound(HeadgateError):
    """There is nothing of that name. Says where to look."""


class Refused(HeadgateError):
    """It could be done, but something depends on it or a person has to confirm. Nothing was changed."""

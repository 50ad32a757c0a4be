"""The triggers as they are now: the view's copy, compiled and indexed once for each change."""

from __future__ import annotations

import structlog

from headgate.common.errors import Invalid
from headgate.common.model import Stored, Trigger
from headgate.common.view import View
from headgate.processor import metrics
from headgate.processor.triggers import Listener, Triggers

log = structlog.get_logger(__name__)


class Catalogue:
    """Call it for each batch: between changes that costs a comparison."""

    def __init__(self, view: View[Stored[Trigger]], least_window_millis: int) -> None:
        self._view = view
        self._least = least_window_millis
        self._version = -1
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._triggers = Triggers((), least_window_millis)

    def __call__(self) -> Triggers:
        version = self._view.version
        if version != self._version:
            self._triggers = Triggers(self._compiled(), self._least)
            self._version = version
            metrics.TRIGGERS.set(len(self._triggers))
        return self._triggers

    def _compiled(self) -> list[Listener]:
        before, self._listeners = self._listeners, {}
        for stored in self._view.snapshot().values():
            key = stored.uid, stored.revision
            try:
                self._listeners[key] = before.get(key) or Listener.of(stored)
            except Invalid as problem:
                log.error("A trigger cannot be used.", trigger=stored.name, error=str(problem))
        return list(self._listeners.values())

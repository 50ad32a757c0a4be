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
        self._compiled: dict[str, tuple[Stored[Trigger], Listener]] = {}
        self._triggers = Triggers((), least_window_millis)

    def __call__(self) -> Triggers:
        version = self._view.version
        if version != self._version:
            self._triggers = Triggers(self._compile(), self._least)
            self._version = version
            metrics.TRIGGERS.set(len(self._triggers))
        return self._triggers

    def _compile(self) -> list[Listener]:
        """Only what changed since: the view hands out the same object until a new record comes."""
        before, self._compiled = self._compiled, {}
        for name, stored in self._view.snapshot().items():
            known = before.get(name)
            if known is not None and known[0] is stored:
                self._compiled[name] = known
                continue
            try:
                self._compiled[name] = stored, Listener.of(stored)
            except (Invalid, ValueError, ArithmeticError) as problem:
                # Others may write to its topic: one such record must not stop all triggers.
                log.error("A trigger cannot be used.", trigger=name, error=str(problem))
        return [listener for _, listener in self._compiled.values()]

"""The local engine: a run is a line in a file and a record on a topic. For demos and tests.

The record goes first and the line decides: a crash between them writes the record again under the same
key, and the line once. So the file has each run exactly once, the topic at least once.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime

import structlog

from headgate.common.errors import Unreachable
from headgate.common.model import LocalAction
from headgate.common.templates import TemplateRefused, Templates
from headgate.runner.engines import Exists, Means, Outcome, Refused, Retry, Run, Started
from headgate.runner.runlog import RunLog

log = structlog.get_logger(__name__)


class Engine:
    """Appends runs to the file of the settings."""

    def __init__(self, means: Means) -> None:
        self._path = means.settings.local_file
        self._topic = means.topics.local_runs
        self._producer = means.producer
        self._templates = Templates()
        self._runs = RunLog(self._path)

    async def close(self) -> None:
        self._runs.close()

    async def start(self, run: Run) -> Outcome:
        action: LocalAction = run.action
        try:
            note = self._templates.fill(action.note, run.context, "note")
        except TemplateRefused as problem:
            return Refused(
                str(problem), problem.code, "correct the template, apply, then: headgate dlq replay"
            )
        line = {
            "trigger": run.trigger,
            "trigger_revision": run.trigger_revision,
            "event_id": run.event["id"],
            "fingerprint": run.event["fingerprint"],
            "type": run.event["type"],
            "note": note,
            "traceparent": run.traceparent,
            "started_at": datetime.now(UTC).isoformat(),
        }
        try:
            if self._runs.has(run.run_id):
                return Exists(str(self._path))
            await self._producer.send(
                self._topic, key=run.run_id, value=json.dumps({"run_id": run.run_id, **line}).encode()
            )
            fresh = self._runs.append(run.run_id, line)
        except Unreachable as problem:
            return Retry(str(problem))
        except (OSError, sqlite3.Error) as problem:
            return Retry(f"cannot write {self._path.name}: {problem}")
        return Started(str(self._path), "written") if fresh else Exists(str(self._path))

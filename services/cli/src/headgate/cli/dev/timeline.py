"""What became of the demo's webhooks: the promise, the verdict on it, and a table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from headgate.cli.dev.deliveries import Answer

TRIGGER = "demo-triage"
PROMISE = ["started", "duplicate", "duplicate", "filtered"]
COLORS = {"started": "green", "duplicate": "yellow", "filtered": "cyan"}


@dataclass
class Story:
    """The answers, and what the topics say about them since."""

    answers: Sequence[Answer]
    decisions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By event id."""
    runs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By run id."""

    def hear(self, kind: str, values: Mapping[str, Any]) -> None:
        """A record of the decisions or runs topic; those of other events are passed over."""
        ours = {answer.event_id for answer in self.answers}
        if kind == "Decision" and values["event_id"] in ours:
            self.decisions[values["event_id"]] = values
        elif kind == "Run" and values["event_id"] in ours:
            self.runs[values["run_id"]] = values

    def verdict(self, answer: Answer) -> Mapping[str, Any]:
        """Our trigger's, of the event that an answer acknowledged; empty while there is none."""
        decision = self.decisions.get(answer.event_id, {})
        return next((one for one in decision.get("verdicts", []) if one["trigger"] == TRIGGER), {})

    def outcomes(self) -> list[str]:
        return [str(self.verdict(answer).get("outcome", "nothing yet")) for answer in self.answers]

    def complete(self) -> bool:
        """Nothing more is to come: each event is decided and each started run has its answer."""
        wanted = {v["run_id"] for v in map(self.verdict, self.answers) if v.get("outcome") == "started"}
        return len(self.decisions) == len(self.answers) and wanted <= set(self.runs)


def broken_promises(story: Story) -> list[str]:
    """What is not as it should be, in sentences; empty: all is well."""
    wrong = [
        f"webhook {number} was answered {answer.status}, not 202: {answer.body or 'no body'}"
        for number, answer in enumerate(story.answers, 1)
        if answer.status != 202
    ]
    for number, (wanted, got) in enumerate(zip(PROMISE, story.outcomes(), strict=True), 1):
        if got != wanted:
            why = story.verdict(story.answers[number - 1]).get("reason", "")
            wrong.append(
                f"webhook {number} was decided {got!r}, not {wanted!r}" + (f" ({why})" if why else "")
            )
    started = [run for run in story.runs.values() if run["state"] in ("started", "exists")]
    if len(started) != 1 or len(story.runs) != 1:
        told = ", ".join(
            f"{run['run_id']} {run['state']} {run['error']}".strip() for run in story.runs.values()
        )
        wrong.append(f"there are {len(story.runs)} runs, not exactly 1{': ' if told else ''}{told}")
    return wrong


def table(story: Story) -> Table:
    """Event, decision and why, run, engine's answer: a row for each webhook."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    shown.add_column("webhook", no_wrap=True)
    shown.add_column("decision, and why", max_width=44)
    shown.add_column("run, and what its engine said", max_width=40)
    for answer, outcome in zip(story.answers, story.outcomes(), strict=True):
        verdict = story.verdict(answer)
        color = COLORS.get(outcome, "red")
        run_id = verdict.get("run_id") if outcome == "started" else None
        shown.add_row(
            f"{answer.delivery.label}\n[dim]{answer.delivery.id[:8]}[/]  {answer.status}",
            f"[{color}]{outcome}[/]\n{_plain(str(verdict.get('reason', '')))}",
            _run(run_id, story.runs) if run_id else "",
        )
    return shown


def _run(run_id: str, runs: Mapping[str, Mapping[str, Any]]) -> str:
    run = runs.get(run_id)
    if run is None:
        return f"{run_id[:8]} no record yet"
    said = run["error"] or run["answer"] or run["handle"]
    return _plain(f"{run_id[:8]}  {run['state']} by {run['engine']}\n{said}")


def _plain(text: str) -> str:
    """Square brackets in data are not markup."""
    return text.replace("[", r"\[")

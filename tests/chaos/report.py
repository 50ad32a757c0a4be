"""A round as figures: one JSON file each run, one table, and everything needed to look into a red one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.chaos.scenario import Round, Scenario
from tests.harness.checker import Verdict
from tests.harness.evidence import Evidence
from tests.harness.history import read
from tests.harness.plan import Kind, token


@dataclass(frozen=True)
class Result:
    scenario: str
    seed: int
    seconds: float
    skipped: str = ""
    events: int = 0
    accepted: int = 0
    runs: int = 0
    filtered: int = 0
    duplicates: int = 0
    dead: int = 0
    kills: int = 0
    exits: list[str] = field(default_factory=list)
    missed_points: list[str] = field(default_factory=list)
    recovery_seconds_max: float = 0.0
    slowest_run_seconds: float = 0.0
    """From the promise (2xx or ack) to the start of its run, the worst of the round: what a fault costs."""
    re_emits: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    info_run: int = 0
    info_not_run: int = 0
    max_rss_mb: dict[str, int] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.findings and not self.skipped

    def count(self, finding: str) -> int:
        return len(self.findings.get(finding, ()))


def measure(round_: Round, scenario: Scenario, seen: Evidence, verdict: Verdict, seconds: float) -> Result:
    nemesis, plan = round_.nemesis, round_.plan
    kinds = [plan[seq].kind for seq in range(round_.load.sent)]
    findings = {**verdict.findings, **round_.findings}
    return Result(
        scenario=scenario.name,
        seed=round_.seed,
        seconds=round(seconds, 1),
        events=round_.load.sent + len(round_.extra.accepted) + round_.extra.copies,
        accepted=len(seen.accepted),
        runs=len(seen.runs),
        filtered=len(seen.filtered),
        duplicates=kinds.count(Kind.DUPLICATE),
        dead=len(seen.dead),
        kills=nemesis.kills,
        exits=nemesis.exits,
        missed_points=nemesis.missed,
        recovery_seconds_max=round(max(nemesis.recoveries, default=0.0), 1),
        slowest_run_seconds=_slowest(round_, seen),
        re_emits=verdict.re_emits,
        attempts=verdict.attempts,
        info_run=verdict.info_run,
        info_not_run=verdict.info_not_run,
        max_rss_mb={kind: size // 2**20 for kind, size in round_.sampler.max_rss.items()},
        findings=findings,
        figures=round_.figures,
    )


def _slowest(round_: Round, seen: Evidence) -> float:
    promised: dict[str, int] = {}
    for line in read(round_.history.path):
        if line["type"] == "ok" and line["seq"] is not None:
            promised.setdefault(token(round_.seed, round_.plan[line["seq"]].origin), line["t"])
    waits = [row.at_ns - promised[row.token] for row in seen.runs if row.token in promised]
    return round(max(waits, default=0) / 1e9, 1)


def keep_evidence(reports: Path, result: Result, seen: Evidence, round_: Round) -> None:
    """History, log tails and topic dumps of a red round, in a folder named for it."""
    folder = reports / f"red-{result.scenario}-{result.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(asdict(result), indent=1))
    (folder / "history.jsonl").write_bytes(round_.history.path.read_bytes())
    (folder / "evidence.json").write_text(json.dumps(asdict(replace(seen, originals={})), default=_plain))
    for child in (round_.pipeline.engine, *round_.pipeline.services.values()):
        (folder / f"{child.name}.log").write_text(child.tail(200))
    for name, page in round_.pages.items():
        (folder / f"{name}.txt").write_text(page)
    topics = round_.pipeline.topics
    for topic in (topics.raw, topics.rekeyed, topics.matched, topics.decisions, topics.dlq, topics.cursors):
        with (folder / f"{topic}.jsonl").open("w") as out:
            for record in round_.reader.records(topic):
                out.write(json.dumps(asdict(record), default=_plain) + "\n")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return sorted(value) if isinstance(value, frozenset) else str(value)


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def write(path: Path, results: Sequence[Result], controls: Sequence[Result], seconds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    totals = {
        name: sum(getattr(one, name) for one in results) for name in ("events", "accepted", "runs", "kills")
    }
    broken = {name: sum(one.count(name) for one in results) for name in ("lost", "doubled", "phantom")}
    bound = {"upper_bound_95": 3 / totals["accepted"] if totals["accepted"] else None}
    document = {
        "commit": commit(),
        "seconds": seconds,
        "totals": totals | broken | bound,
        "rounds": [asdict(one) for one in results],
        "controls": [asdict(one) for one in controls],
    }
    path.write_text(json.dumps(document, indent=1, default=str))


COLUMNS = [
    "scenario",
    "seeds",
    "events",
    "accepted",
    "runs",
    "filtered",
    "dup",
    "dlq",
    "lost",
    "doubled",
    "phantom",
    "other",
    "kills",
    "exits",
    "recovery",
    "slowest",
    "re-emits",
    "attempts",
    "seconds",
]


def table(results: Sequence[Result], title: str) -> Table:
    """One line for each scenario, all its seeds together."""
    shown = Table(*COLUMNS, title=title)
    for name in dict.fromkeys(one.scenario for one in results):
        some = [one for one in results if one.scenario == name]
        if some[0].skipped:
            shown.add_row(name, "skipped", some[0].skipped)
            continue
        attempts: dict[int, int] = {}
        for one in some:
            for tries, runs in one.attempts.items():
                attempts[tries] = attempts.get(tries, 0) + runs
        named = ("lost", "doubled", "phantom")
        other = sum(len(found) for one in some for kind, found in one.findings.items() if kind not in named)
        cells: list[object] = [name, len(some)]
        cells += [sum(getattr(one, field_) for one in some) for field_ in _SUMS]
        cells += [sum(one.count(kind) for one in some) for kind in named]
        cells += [other, sum(one.kills for one in some), sum(len(one.exits) for one in some)]
        cells += [max(one.recovery_seconds_max for one in some), max(one.slowest_run_seconds for one in some)]
        cells += [sum(one.re_emits for one in some)]
        cells += [" ".join(f"{tries}:{runs}" for tries, runs in sorted(attempts.items())[:4])]
        cells += [round(sum(one.seconds for one in some))]
        style = None if all(one.good for one in some) else "red"
        shown.add_row(*map(str, cells), style=style)
    return shown


_SUMS = ("events", "accepted", "runs", "filtered", "duplicates", "dead")


def show(results: Sequence[Result], title: str) -> None:
    if not results:
        return
    console = Console(width=200)
    console.print(table(results, title))
    accepted = sum(one.accepted for one in results)
    if accepted and all(one.good for one in results):
        console.print(
            f"accepted {accepted}; where nothing was found, at most {3 / accepted:.1e} of events (95 %)"
        )
    for one in results:
        for name, found in one.findings.items():
            console.print(
                f"{one.scenario} seed {one.seed}: {name}: {len(found)}, e.g. {found[0]}", markup=False
            )

"""`make chaos`: run scenarios, judge them, write the report. Exit code 1 when anything was red."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.catalogue import scenarios
from tests.chaos.controls import CONTROLS, Control
from tests.chaos.report import Result, show, write
from tests.chaos.scenario import Scenario, Skipped
from tests.chaos.stage import Stage
from tests.harness.cluster import PORTS, Cluster

REPORTS = Path("chaos-reports")
SHORT = ("F2", "F1", "F15", "F21")
SHORT_SEEDS = 1
SHORT_CONTROLS = ("mark-before-send", "ack-before-produce")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--scenario", default="all", help="F2, or F1,F2, or all")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--events", type=int, help="events of a round; default: the scenario's own")
    parser.add_argument(
        "--short", action="store_true", help="for CI: a few scenarios with one seed, and two controls"
    )
    parser.add_argument(
        "--controls", nargs="?", const="all", help="known-bad modes instead (all, or names): each must go red"
    )
    parser.add_argument("--keep", action="store_true", help="keep the working folder")
    return parser.parse_args()


def wanted(given: argparse.Namespace, known: list[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The names of the scenarios, and those of the controls."""
    if given.short:
        return SHORT, SHORT_CONTROLS
    if given.controls:
        return [], list(CONTROLS) if given.controls == "all" else given.controls.split(",")
    return known if given.scenario == "all" else given.scenario.upper().split(","), []


class Suite:
    """Runs scenarios; clusters are shared by all that leave them as they were."""

    def __init__(self, home: Path, reports: Path) -> None:
        self.home = home
        self.reports = reports
        self.clusters: dict[int, Cluster] = {}
        self.results: list[Result] = []
        self.stages = 0

    async def run(
        self, scenario: Scenario, seeds: range, events: int | None, *, until_red: bool = False
    ) -> None:
        """All seeds on one stage; a red round gets the next one a fresh stage."""
        left = list(seeds)
        while left:
            try:
                scenario.supports(self.home)
                left = await self._stage(scenario, left, events)
            except Skipped as reason:
                print(f"{scenario.name} skipped: {reason}", flush=True)
                self.results.append(Result(scenario.name, left[0], 0.0, skipped=str(reason)))
                return
            if until_red and not self.results[-1].good:
                return

    async def _stage(self, scenario: Scenario, seeds: list[int], events: int | None) -> list[int]:
        cluster = await self._cluster(scenario)
        self.stages += 1
        name = f"{scenario.name.lower()}-{self.stages}"
        prefix = f"chaos.{name}"
        began = time.monotonic()
        try:
            async with Stage(cluster, scenario, prefix, self.home / name, self.reports) as stage:
                print(f"{scenario.name} {scenario.title}: up in {time.monotonic() - began:.0f} s", flush=True)
                while seeds:
                    seed = seeds.pop(0)
                    result = await stage.play(seed, events or scenario.events)
                    self.results.append(result)
                    print(line(result), flush=True)
                    if not result.good:
                        break
        finally:
            if scenario.own_cluster:
                self.clusters.pop(scenario.brokers).down()
        return seeds

    async def _cluster(self, scenario: Scenario) -> Cluster:
        for brokers in [count for count in self.clusters if count != scenario.brokers]:
            self.clusters.pop(brokers).down()
        if scenario.brokers not in self.clusters:
            cluster = Cluster(
                self.home / f"cluster-{len(list(self.home.glob('cluster-*')))}", scenario.brokers, PORTS
            )
            self.clusters[scenario.brokers] = cluster
            await cluster.up()
        return self.clusters[scenario.brokers]

    def down(self) -> None:
        for cluster in self.clusters.values():
            cluster.down()


def line(one: Result) -> str:
    """A round in one line."""
    said = (
        "good"
        if one.good
        else "RED: " + ", ".join(f"{name} {len(found)}" for name, found in one.findings.items())
    )
    return (
        f"  seed {one.seed}: {said}; {one.events} events, {one.accepted} accepted, {one.runs} runs, {one.dead} dead, "
        f"{one.kills} kills, {len(one.exits)} exits, slowest run {one.slowest_run_seconds} s, "
        f"{one.re_emits} re-emits, {one.seconds} s"
    )


async def judge_controls(suite: Suite, controls: dict[str, Control], first_seed: int) -> bool:
    """Every known-bad mode must turn red within its runs; otherwise the suite is blind."""
    all_seen = True
    for name, control in controls.items():
        before = len(suite.results)
        print(f"control {name}: must go red", flush=True)
        seeds = range(first_seed, first_seed + control.runs)
        broken = replace(control.scenario, name=name)
        await suite.run(broken, seeds, control.events, until_red=True)
        found = {kind for one in suite.results[before:] for kind in one.findings}
        seen = bool(found & control.wanted)
        all_seen &= seen
        print(f"control {name}: {'seen as ' + ', '.join(sorted(found)) if seen else 'NOT SEEN'}", flush=True)
    return all_seen


async def main() -> int:
    given = arguments()
    known = scenarios()
    names, modes = wanted(given, list(known))
    unknown = [name for name in (*names, *modes) if name not in known and name not in CONTROLS]
    if unknown:
        print(f"no {', '.join(unknown)}; there are: {', '.join((*known, *CONTROLS))}", file=sys.stderr)
        return 2
    home = Path(tempfile.mkdtemp(prefix="headgate-chaos-"))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    suite = Suite(home, REPORTS / stamp)
    began = time.monotonic()
    try:
        seeds = range(given.seed, given.seed + (SHORT_SEEDS if given.short else given.seeds))
        for name in names:
            await suite.run(known[name], seeds, given.events)
        good = all(one.good or one.skipped for one in suite.results)
        good &= await judge_controls(suite, {mode: CONTROLS[mode] for mode in modes}, given.seed)
    finally:
        suite.down()
        if not given.keep:
            shutil.rmtree(home, ignore_errors=True)
    rounds = [one for one in suite.results if one.scenario in known]
    controls = [one for one in suite.results if one.scenario in CONTROLS]
    show(rounds, "chaos")
    show(controls, "known-bad modes: each must be red")
    report = REPORTS / f"{stamp}.json"
    write(report, rounds, controls, round(time.monotonic() - began))
    print(f"{'good' if good else 'RED'}; report: {report}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

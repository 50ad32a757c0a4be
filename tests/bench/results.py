"""What a benchmark found: rounds, medians, ratios against targets; printed, and kept with versions."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results.jsonl"

Numbers = dict[str, float]


@dataclass
class Target:
    """A promise: `value` must be at least, or at most, `limit`."""

    name: str
    value: float
    limit: float
    at_least: bool = True
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "pass" if self.met else "FAIL"
        return (
            f"  {verdict}  {self.name}: {self.value:.2f}{self.unit}, target {sign} {self.limit:g}{self.unit}"
        )


@dataclass
class Result:
    """One benchmark: for each contender its rounds, and what they come to."""

    name: str
    about: str
    rounds: dict[str, list[Numbers]] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, contender: str, numbers: Numbers) -> None:
        self.rounds.setdefault(contender, []).append(numbers)
        said = ", ".join(f"{key} {_short(value)}" for key, value in numbers.items())
        print(f"    {contender}: {said}", flush=True)

    def median(self, contender: str, number: str) -> float:
        return statistics.median(one[number] for one in self.rounds[contender])

    def ratio(self, number: str, of: str, to: str) -> float:
        """Median over rounds of the ratio within one round: what the machine did meanwhile hit both sides."""
        pairs = zip(self.rounds[of], self.rounds[to], strict=True)
        return statistics.median(mine[number] / theirs[number] for mine, theirs in pairs)

    def print(self) -> None:
        print(f"\n{self.name}: {self.about}")
        for contender, rounds in self.rounds.items():
            cells = []
            for number in rounds[0]:
                values = [one[number] for one in rounds]
                spread = f" ({_short(min(values))} to {_short(max(values))})" if len(values) > 1 else ""
                cells.append(f"{number} {_short(statistics.median(values))}{spread}")
            print(f"  {contender:<28} " + "  ".join(cells))
        for note in self.notes:
            print(f"  {note}")
        for target in self.targets:
            print(target)

    def keep(self) -> None:
        """One line in bench/results.jsonl."""
        RESULTS.parent.mkdir(exist_ok=True)
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "bench": self.name,
            "about": self.about,
            "rounds": self.rounds,
            "targets": [{**asdict(one), "met": one.met} for one in self.targets],
            "notes": self.notes,
            "machine": machine(),
        }
        with RESULTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def interleaved(rounds: int, contenders: dict[str, Callable[[], Numbers]], result: Result) -> None:
    """Every contender once a round: a slow minute of the machine is everybody's."""
    for number in range(1, rounds + 1):
        print(f"  {result.name}, round {number} of {rounds}", flush=True)
        for name, measure in contenders.items():
            result.add(name, measure())


def machine() -> dict[str, object]:
    """What the numbers depend on besides the code."""
    return {
        "python": platform.python_version(),
        "faust": version("faust-streaming"),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "kafka": kafka_version(),
        "commit": _git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "load": [round(one, 1) for one in psutil.getloadavg()],
    }


def kafka_version() -> str:
    from headgate.common.embedded.download import ensure

    names = [Path(jar).name for jar in ensure().kafka_jars]
    return next(
        one.removeprefix("kafka_2.13-").removesuffix(".jar") for one in names if one.startswith("kafka_2.13-")
    )


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"

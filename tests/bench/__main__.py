"""`make bench`: every promise about speed as a ratio, against baselines run beside it in interleaved rounds.

make bench                                   all of it
make bench ARGS="--only processor --rounds 5"
make bench ARGS=--quick                      a few minutes, rougher numbers
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tests.bench import events, latency, memory, processor, webhook
from tests.bench.results import RESULTS, ROOT, Result
from tests.bench.world import World, world

BENCHES: dict[str, Callable[[World, argparse.Namespace], Result]] = {
    processor.NAME: lambda world, options: processor.run(world, options.rounds, options.quick),
    webhook.NAME: lambda world, options: webhook.run(world, options.rounds, options.quick),
    latency.NAME: lambda world, options: latency.run(world, options.rounds, options.quick),
    memory.NAME: lambda world, options: memory.run(world, options.events),
}


def main() -> int:
    options = _options()
    results = []
    with world(options.bootstrap, options.registry) as here:
        events.warm_up(here)
        for name in options.only or BENCHES:
            results.append(BENCHES[name](here, options))
            results[-1].keep()
    for result in results:
        result.print()
    missed = [target for result in results for target in result.targets if not target.met]
    print(
        f"\nkept in {RESULTS.relative_to(ROOT)}; "
        + (f"{len(missed)} targets missed" if missed else "every target met")
    )
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=sorted(BENCHES), help="one of them (repeatable)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 3, quick 1)")
    parser.add_argument("--quick", action="store_true", help="fewer events and rounds")
    parser.add_argument("--bootstrap", help="a running Kafka instead of one started for this")
    parser.add_argument("--registry", help="a running Schema Registry instead of one started for this")
    parser.add_argument(
        "--events", type=int, help="webhooks of the memory benchmark (default 1,000,000; quick 50,000)"
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.events = options.events or (50_000 if options.quick else 1_000_000)
    return options


if __name__ == "__main__":
    sys.exit(main())

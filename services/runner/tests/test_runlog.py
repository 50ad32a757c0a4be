from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from headgate.runner.runlog import RunLog


def lines(path: Path) -> list[str]:
    return [json.loads(line)["run_id"] for line in path.read_bytes().splitlines()]


def test_a_run_is_written_once_also_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first = RunLog(path)
    assert first.append("a", {})
    assert not first.append("a", {})
    first.close()
    second = RunLog(path)
    assert second.has("a")
    assert not second.append("a", {})
    assert second.append("b", {})
    second.close()
    assert lines(path) == ["a", "b"]


def test_two_open_logs_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    one, two = RunLog(path), RunLog(path)
    assert one.append("a", {})
    assert not two.append("a", {})
    assert two.append("b", {})
    assert one.has("b")
    one.close()
    two.close()


def test_half_a_line_from_a_crash_is_no_run_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    log = RunLog(path)
    log.append("a", {})
    log.close()
    with path.open("ab") as out:
        out.write(b'{"run_id":"b","trig')
    again = RunLog(path)
    assert not again.has("b")
    assert again.append("b", {})
    again.close()
    assert lines(path) == ["a", "b"]


def test_the_index_may_be_lost_and_the_file_may_be_emptied(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    log = RunLog(path)
    log.append("a", {})
    log.close()
    (tmp_path / "runs.jsonl.index").unlink()
    again = RunLog(path)
    assert again.has("a")
    path.write_bytes(b"")
    assert not again.has("a")
    assert again.append("a", {})
    again.close()
    assert lines(path) == ["a"]


def test_a_line_of_somebody_else_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'not json\r{"x": 1}\n[]\n{"run_id":"a"}\n')
    log = RunLog(path)
    assert log.has("a")
    log.close()
    assert path.read_bytes().startswith(b"not json\r")


RACER = """
import sys
from pathlib import Path
from headgate.runner.runlog import RunLog
log = RunLog(Path(sys.argv[1]))
print(sum(log.append(f"run-{number}", {}) for number in range(200)))
"""


def test_processes_that_race_write_each_run_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(path)], stdout=subprocess.PIPE) for _ in range(2)
    ]
    assert sum(int(racer.communicate(timeout=60)[0]) for racer in racers) == 200
    assert sorted(lines(path)) == sorted(f"run-{number}" for number in range(200))

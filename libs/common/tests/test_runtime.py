"""What a service asks of its process takes effect, and needs nothing that only one C library has."""

from __future__ import annotations

import subprocess
import sys


def test_a_tuned_process_hands_the_interpreter_over_at_once() -> None:
    said = _run("print(sys.getswitchinterval())")
    assert float(said) < 0.001


def test_without_glibc_the_rest_is_tuned_all_the_same() -> None:
    said = _run("print(sys.getswitchinterval())", before="import ctypes; ctypes.CDLL = lambda _: object()")
    assert float(said) < 0.001


def test_what_a_settled_process_has_made_is_not_looked_through_again() -> None:
    said = _run("import gc\nruntime.settle()\nprint(gc.get_freeze_count() > 1_000)")
    assert said.strip() == "True"


def _run(code: str, before: str = "") -> str:
    program = f"{before}\nimport sys\nfrom headgate.common import runtime\nruntime.tune()\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

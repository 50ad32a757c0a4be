"""Become another program that dies with its parent: `python launch.py PARENT_PID COMMAND...`.

The kernel sends SIGKILL to us when the thread that started us ends, however it ends (PR_SET_PDEATHSIG);
the setting survives exec. So a `kill -9` of a supervisor leaves no broker and no service behind.
Run as a plain file, on the standard library alone: it costs 20 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"cannot ask the kernel to end {command[0]} with its parent (errno {ctypes.get_errno()})")
    if os.getppid() != parent:  # it died before we could ask
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 that is what it is for
    except OSError as problem:
        sys.exit(f"cannot start {command[0]}: {problem.strerror}")


if __name__ == "__main__":
    main()

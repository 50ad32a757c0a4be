"""python -m headgate.runner"""

from __future__ import annotations

import os
import sys

import uvloop

from headgate.common import runtime
from headgate.common.logs import configure
from headgate.runner.app import run
from headgate.runner.settings import RunnerSettings


def main() -> None:
    runtime.tune()
    settings = RunnerSettings()
    configure(settings, "runner")
    code = uvloop.run(run(settings))
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread stuck inside librdkafka must not keep an ended process alive.
    os._exit(code)


if __name__ == "__main__":
    main()

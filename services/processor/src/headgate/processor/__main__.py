"""`python -m headgate.processor`"""

import asyncio
import ctypes
import gc
import logging
import sys

import structlog
import uvloop

from headgate.common.errors import Misconfigured
from headgate.common.logs import configure
from headgate.processor.app import run
from headgate.processor.settings import Settings

_M_ARENA_MAX = -8


def main() -> int:
    # glibc gives each of our dozen threads a heap of its own, and none of them shrinks again.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
    settings = Settings()
    configure(settings, "processor")
    # Faust and aiokafka build their debug records before they ask whether anyone wants them.
    logging.disable(logging.INFO)
    # A batch makes tens of thousands of short-lived objects and no cycles: looking for those at each 700th
    # object costs a tenth of the time.
    gc.set_threshold(50_000, 20, 50)
    # Where a thread waits for another, it waits for the interpreter's lock too: by default up to 5 ms each time.
    sys.setswitchinterval(0.0005)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        asyncio.run(run(settings))
    except Misconfigured as problem:
        structlog.get_logger(__name__).error(str(problem))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

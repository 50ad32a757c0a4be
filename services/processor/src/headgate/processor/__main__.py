"""`python -m headgate.processor`"""

import asyncio
import gc
import logging
import sys

import structlog
import uvloop

from headgate.common import runtime
from headgate.common.errors import Misconfigured
from headgate.common.logs import configure
from headgate.processor.app import run
from headgate.processor.settings import Settings


def main() -> int:
    runtime.tune()
    settings = Settings()
    configure(settings, "processor")
    # Faust and aiokafka build their debug records before they ask whether anyone wants them.
    logging.disable(logging.INFO)
    # A batch makes tens of thousands of short-lived objects and no cycles: looking for those at each 700th
    # object costs a tenth of the time.
    gc.set_threshold(50_000, 20, 50)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        asyncio.run(run(settings))
    except Misconfigured as problem:
        structlog.get_logger(__name__).error(str(problem))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

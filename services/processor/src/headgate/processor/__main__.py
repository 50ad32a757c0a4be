"""`python -m headgate.processor`"""

import asyncio
import logging
import sys

import structlog
import uvloop

from headgate.common.errors import Misconfigured
from headgate.common.logs import configure
from headgate.processor.app import run
from headgate.processor.settings import Settings


def main() -> int:
    settings = Settings()
    configure(settings, "processor")
    # Faust and aiokafka build their debug records before they ask whether anyone wants them.
    logging.disable(logging.INFO)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        asyncio.run(run(settings))
    except Misconfigured as problem:
        structlog.get_logger(__name__).error(str(problem))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

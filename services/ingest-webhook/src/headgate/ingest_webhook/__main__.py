"""`python -m headgate.ingest_webhook`"""

import sys

import structlog
import uvloop

from headgate.common import logs
from headgate.common.errors import HeadgateError
from headgate.ingest_webhook.app import run
from headgate.ingest_webhook.settings import Settings


def main() -> int:
    settings = Settings()
    logs.configure(settings, "ingest-webhook")
    try:
        uvloop.run(run(settings))
    except HeadgateError as problem:
        structlog.get_logger(__name__).error("Stopped.", reason=str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

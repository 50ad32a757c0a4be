"""python -m headgate.poller"""

import uvloop

from headgate.common import logs
from headgate.poller.app import run
from headgate.poller.settings import PollerSettings

if __name__ == "__main__":
    settings = PollerSettings()
    logs.configure(settings, "poller")
    uvloop.run(run(settings))

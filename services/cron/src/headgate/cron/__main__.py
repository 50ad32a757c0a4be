"""python -m headgate.cron"""

import uvloop

from headgate.common import logs
from headgate.cron.app import run
from headgate.cron.settings import CronSettings

if __name__ == "__main__":
    settings = CronSettings()
    logs.configure(settings, "cron")
    uvloop.run(run(settings))

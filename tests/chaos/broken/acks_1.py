"""An ingest service that is content when the leader alone has the record."""

import runpy

from headgate.common import producer

producer.DEFAULTS.update({"acks": 1, "enable.idempotence": False})
runpy.run_module("headgate.ingest_webhook", run_name="__main__")

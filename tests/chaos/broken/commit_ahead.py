"""A runner that takes the first finished record for all that it has taken, and commits them all."""

import runpy

from headgate.runner.lowwater import LowWater


def finish(self: LowWater, offset: int) -> None:
    """As if nothing were unfinished."""
    self._open.clear()


LowWater.finish = finish  # type: ignore[method-assign]
runpy.run_module("headgate.runner", run_name="__main__")

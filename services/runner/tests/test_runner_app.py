"""The wiring, where it decides something of its own."""

from __future__ import annotations

import asyncio

from headgate.common.settings import KafkaSettings
from headgate.runner.app import App
from headgate.runner.settings import RunnerSettings


async def test_a_runner_whose_watch_over_progress_fails_ends() -> None:
    app = App(RunnerSettings(kafka=KafkaSettings(bootstrap="127.0.0.1:1")))

    async def fails() -> None:
        raise RuntimeError("odd")

    asyncio.create_task(fails()).add_done_callback(app._watched)
    assert await asyncio.wait_for(app._end, 10) == "the watch over progress ended: odd"

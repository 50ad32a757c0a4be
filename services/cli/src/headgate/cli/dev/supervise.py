"""Run a stack in the foreground until it is done or a signal comes; whatever happens, nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from headgate.cli.dev import plan
from headgate.cli.dev.folder import Folder, ports_held
from headgate.cli.dev.keeper import Pace
from headgate.cli.dev.plan import Options
from headgate.cli.dev.screen import Screen
from headgate.cli.dev.stack import Stack

Body = Callable[[Stack], Awaitable[int]]
"""What to do with a stack that is ready; returns the exit code."""


def supervise(
    options: Options,
    screen: Screen,
    body: Body,
    *,
    start_seconds: float | None = None,
    pace: Pace | None = None,
) -> int:
    """Own the folder, start the stack, run `body`, stop. The first signal stops in order, the second at once."""
    folder = Folder(options.directory)
    with folder.owned(), ports_held(plan.ports(options)):
        if options.reset:
            folder.reset()
        stack = Stack(options, folder, screen, pace)
        return asyncio.run(_run(stack, screen, body, start_seconds))


async def _run(stack: Stack, screen: Screen, body: Body, start_seconds: float | None) -> int:
    work = asyncio.ensure_future(_start_and(stack, body, start_seconds))
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            screen.line("stopping; a second Ctrl-C or SIGTERM does not wait")
            work.cancel()
        else:
            stack.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it outlives its terminal
        loop.add_signal_handler(signal.SIGHUP, on_signal)
    try:
        return await work
    except asyncio.CancelledError:
        return 0
    finally:
        await stack.stop()
        screen.line("stopped")


async def _start_and(stack: Stack, body: Body, seconds: float | None) -> int:
    await stack.start(seconds)
    return await body(stack)

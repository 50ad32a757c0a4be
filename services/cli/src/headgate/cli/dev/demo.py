"""`headgate demo`: apply the example trigger, send four webhooks, show what became of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.dev import deliveries, hints, timeline
from headgate.cli.dev.demo_secret import SECRET_FILE, SECRET_VARIABLE
from headgate.cli.dev.screen import Screen
from headgate.cli.dev.stack import Stack
from headgate.cli.dev.timeline import Story
from headgate.common.errors import Misconfigured

if TYPE_CHECKING:
    from headgate.common.settings import ServiceSettings

SEND_SECONDS = 30.0
STORY_SECONDS = 60.0
ONCE_SECONDS = 120.0
START_SECONDS = 240.0
"""A cold start on a busy machine takes one; --once must end."""


def examples() -> Path:
    """The folder of the demo's files: of this checkout, wherever we are called from."""
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "examples" / "demo").is_dir():
            return folder / "examples" / "demo"
    raise Misconfigured("examples/demo is not here; run headgate demo inside a checkout of Headgate")


async def once(screen: Screen, stack: Stack) -> int:
    """The body of `headgate demo --once`. 0: all was as promised."""
    try:
        async with asyncio.timeout(ONCE_SECONDS):
            return report(await perform(screen, stack), screen)
    except TimeoutError:
        screen.say("NOT AS PROMISED", f"no result within {ONCE_SECONDS:.0f} s; see {stack.options.logs}/")
        return 1


async def stay(screen: Screen, stack: Stack) -> int:
    """The body of `headgate demo`: the same, then what to try next, until a signal."""
    story = await perform(screen, stack)
    report(story, screen)
    hints.up(screen, stack)
    hints.try_next(screen, stack, story, stack.options.directory / SECRET_FILE, examples())
    await asyncio.Event().wait()
    return 0


async def perform(screen: Screen, stack: Stack) -> Story:
    """Apply, send, and wait for the end of the story."""
    from headgate.cli.dev.tail import Tail

    settings = stack.settings()
    screen.say("trigger", await asyncio.to_thread(_apply, settings))
    tail = await asyncio.to_thread(Tail, settings, ("Decision", "Run"))
    try:
        wanted = deliveries.deliveries(examples())
        secret = stack.options.env[SECRET_VARIABLE]
        story = Story(await deliveries.send(stack.webhooks[0], secret, wanted, SEND_SECONDS))
        await asyncio.to_thread(tail.follow, story.hear, story.complete, STORY_SECONDS)
    finally:
        tail.close()
    return story


def report(story: Story, screen: Screen) -> int:
    """Print the timeline and what is off about it."""
    screen.line()
    screen.console.print(timeline.table(story))
    wrong = timeline.broken_promises(story)
    for sentence in wrong:
        screen.say("NOT AS PROMISED", sentence)
    if not wrong:
        screen.line("One issue delivered three times: one run. The edited issue: refused by the condition.")
    return 1 if wrong else 0


def _apply(settings: ServiceSettings) -> str:
    from headgate.common.control.apply import apply, read
    from headgate.common.control.connection import Connection

    connection = Connection(settings, author="headgate demo")
    try:
        changes = apply(connection, read([str(examples() / "triage.yaml")]))
    finally:
        connection.close()
    return ", ".join(f"{change.kind} {change.name} {change.action}" for change in changes)

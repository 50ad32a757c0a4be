"""What to try while everything is up."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.dev.deliveries import PATH
from headgate.cli.dev.demo_secret import SECRET_VARIABLE
from headgate.cli.dev.screen import Screen
from headgate.cli.dev.stack import Stack

if TYPE_CHECKING:
    from headgate.cli.dev.timeline import Story


def relative(path: Path) -> Path:
    """As short as a person would write it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


async def stay_up(screen: Screen, stack: Stack) -> int:
    """The body of `headgate dev`: say that all is up, and wait for a signal."""
    up(screen, stack)
    await asyncio.Event().wait()
    return 0


def up(screen: Screen, stack: Stack) -> None:
    """The last lines before a person is alone with it."""
    screen.line()
    screen.line(f"Everything is up. Logs: {stack.options.logs}/   Addresses and pids: {stack.dev_file}")
    screen.line("Ctrl-C stops it; the data stays.")


def try_next(screen: Screen, stack: Stack, story: Story, secret_file: Path, examples: Path) -> None:
    """Lines to copy: explain an event, send a webhook by hand, read a topic with somebody else's tool."""
    payload = relative(examples / "issues.opened.json")
    topics = stack.options.prefix
    event = story.answers[-1].event_id or "EVENT_ID"
    screen.line()
    screen.line("Try next:")
    screen.line(f"  export PATH={relative(Path(sys.executable).parent)}:$PATH")
    for command in (
        f"headgate why {event}",
        "headgate get triggers",
        f"kcat -b {stack.bootstrap} -t {topics}.events.raw -C -e -f '%k %h\\n'",
        f"S=$(openssl dgst -sha256 -hmac \"${{{SECRET_VARIABLE}:-$(cat {secret_file})}}\" {payload} | sed 's/.* //')\n"
        f"  curl -i {stack.webhooks[0]}{PATH} --data-binary @{payload} -H 'Content-Type: application/json' \\\n"
        f'    -H \'X-GitHub-Event: issues\' -H "X-GitHub-Delivery: by-hand-$(date +%s)" -H "X-Hub-Signature-256: sha256=$S"',
    ):
        screen.line(f"  {command}")

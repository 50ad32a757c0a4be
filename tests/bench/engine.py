"""A workflow engine that starts nothing: it notes how old each event is when its run arrives.

`POST /runs` takes `sent`, nanoseconds since 1970, anywhere in the body; `GET /taken` hands out what came so far.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import uvloop
from aiohttp import web

_SENT = re.compile(rb"sent\D+(\d+)")


async def serve(port: int) -> None:
    ages: list[float] = []

    async def run(request: web.Request) -> web.Response:
        now = time.time_ns()
        found = _SENT.search(await request.read())
        if found is None:
            return web.Response(status=400)
        ages.append((now - int(found[1])) / 1e6)
        return web.Response(status=201, body=b"{}", content_type="application/json")

    async def taken(_: web.Request) -> web.Response:
        answer = web.json_response(list(ages))
        ages.clear()
        return answer

    app = web.Application()
    app.add_routes([web.post("/runs", run), web.get("/taken", taken)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

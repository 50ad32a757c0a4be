"""aiohttp and confluent-kafka with nothing between: check the signature, produce, answer on the ack."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import sys

import uvloop
from aiohttp import web
from confluent_kafka import KafkaError, Message, Producer
from tests.bench.load import SECRET

from headgate.common.topics import Topics

POLL_SECONDS = 0.001


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    topic = Topics(prefix=os.environ["HEADGATE_KAFKA__PREFIX"]).raw
    producer = Producer(
        {
            "bootstrap.servers": os.environ["HEADGATE_KAFKA__BOOTSTRAP"],
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "compression.type": "none",
        }
    )

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        sent = request.headers.get("X-Hub-Signature-256", "")
        if not hmac.compare_digest(sent, "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()):
            return web.Response(status=401)
        stored: asyncio.Future[None] = loop.create_future()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(RuntimeError(error.str()))

        producer.produce(topic, key=request.headers["X-GitHub-Delivery"], value=body, on_delivery=delivered)
        await stored
        return web.Response(status=202, body=b"{}", content_type="application/json")

    app = web.Application()
    app.router.add_post("/webhooks/{provider}/{source}", receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    while True:
        producer.poll(0)
        await asyncio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

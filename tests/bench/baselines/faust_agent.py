"""A plain Faust agent as its manual would have it: a table, a condition, a send. No batching, no tricks."""

from __future__ import annotations

import io
import json
import os
from typing import Any, cast

import fastavro
import faust
from cel_expr_python import cel
from tests.bench.events import CONDITION

from headgate.common import avro
from headgate.common.topics import Topics

topics = Topics(prefix=os.environ["HEADGATE_KAFKA__PREFIX"])
schema = avro.schema("RawEvent")

app = faust.App(
    "plain-" + topics.prefix.replace(".", "-"),
    broker="kafka://" + os.environ["HEADGATE_KAFKA__BOOTSTRAP"],
    store="memory://",
    topic_partitions=topics.partitions,
    topic_replication_factor=1,
    topic_disable_leader=True,
    producer_acks=-1,
    producer_linger_ms=5,
    broker_commit_every=1000,
    broker_session_timeout=10.0,
    broker_heartbeat_interval=2.0,
    datadir=os.environ["HEADGATE_STATE_DIR"],
    web_host="127.0.0.1",
)
raw = app.topic(topics.raw, key_type=bytes, value_type=bytes, value_serializer="raw", key_serializer="raw")
matched = app.topic(
    topics.matched, key_type=bytes, value_type=bytes, value_serializer="raw", key_serializer="raw"
)
seen = app.Table("seen", partitions=topics.partitions, key_type=str, value_type=int)

environment = cel.NewEnv(variables={"event": cel.Type.DYN})
condition = environment.compile(CONDITION)


def passes(event: dict[str, object]) -> bool:
    activation = environment.Activation({"event": event})
    return condition.eval(activation=activation).value() is True


@app.agent(raw)
async def process(stream: faust.StreamT[bytes]) -> None:
    async for key, value in stream.items():
        event = cast(dict[str, Any], fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None))
        fingerprint = event["fingerprint"]
        if fingerprint in seen:
            continue
        seen[fingerprint] = 1
        event["data"] = json.loads(event["data"])
        if passes(event):
            await matched.send(key=key, value=value)


if __name__ == "__main__":
    app.main()

"""The runner's promises on real Kafka: a child process, killed and asked to stop at bad moments."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headgate.common import deadletter

pytestmark = pytest.mark.kafka


def http(engine: Any, **more: Any) -> dict[str, Any]:
    return {"http": {"url": engine.url, "body": {"n": "{{ event.data.number }}"}, **more}}


async def test_each_matched_event_becomes_one_run_with_its_record(world: Any, engine: Any) -> None:
    await world.apply("t", http(engine))
    await world.match("t", range(50))
    runner = await world.runner()
    await runner.ready()
    records = await world.eventually(world.run_records, lambda found: len(found) == 50, "50 run records")
    assert engine.count == 50
    assert {record["state"] for record in records} == {"started"}
    assert {record["run_id"] for record in records} == set(engine.runs)
    one = engine.runs[world.run("t", 7)]
    assert one["body"] == {"n": 7}
    assert one["headers"]["Idempotency-Key"] == world.run("t", 7)
    assert one["headers"]["traceparent"].startswith("00-")
    assert await runner.stop() == 0
    assert await asyncio.to_thread(world.committed) == await asyncio.to_thread(world.ends)


@pytest.mark.parametrize("point", ["runner.started-before-record", "runner.recorded-before-commit"])
async def test_killed_at_any_point_and_restarted_starts_each_run_once(
    world: Any, engine: Any, point: str
) -> None:
    await world.apply("t", http(engine))
    await world.match("t", range(60), keys=20)
    for nth in (1, 7, 15):
        # A static member takes its partitions back at once; without a name it waits for the session to end.
        dying = await world.runner(FAILPOINT=f"{point}:{nth}", HEADGATE_INSTANCE_ID="runner-0")
        assert await dying.ended() == 137
    await (await world.runner(HEADGATE_INSTANCE_ID="runner-0")).ready()
    await world.eventually(
        world.run_records, lambda found: len({record["run_id"] for record in found}) == 60, "60 runs"
    )
    assert engine.count == 60
    assert max(engine.attempts.values()) > 1, "no start was ever repeated: the kill proved nothing"
    assert not await world.dead_letters()


async def test_lost_replies_and_bad_answers_end_in_exactly_one_run_each(world: Any, engine: Any) -> None:
    whats = ["drop-after", "500-after", "500-before", "drop-before", "429", "ok"]
    engine.plan = lambda run, attempt: whats[(int(run[:8], 16) + attempt) % 6] if attempt < 4 else "ok"
    await world.apply("t", http(engine))
    await world.match("t", range(120))
    await (await world.runner()).ready()
    records = await world.eventually(world.run_records, lambda found: len(found) == 120, "120 runs")
    assert engine.count == 120
    assert {record["state"] for record in records} == {"started", "exists"}
    assert sum(record["attempts"] for record in records) == sum(engine.attempts.values()) > 120
    assert not await world.dead_letters()


async def test_a_refusal_goes_to_the_dlq_with_its_coordinates_and_the_partition_goes_on(
    world: Any, engine: Any
) -> None:
    bad = world.run("t", 3)
    engine.plan = lambda run, _: "400" if run == bad else "ok"
    await world.apply("t", http(engine))
    sent = [await world.produce(world.matched("t", number), "one-key", partition=2) for number in range(6)]
    runner = await world.runner()
    await runner.ready()
    (letter,) = await world.eventually(world.dead_letters, len, "a dead letter")
    reason = deadletter.read(letter.headers())
    assert (reason.topic, reason.partition, reason.offset) == (sent[3].topic(), 2, sent[3].offset())
    assert (reason.stage, reason.code, reason.trigger, reason.run_id) == ("runner", "engine-400", "t", bad)
    assert "the engine answered 400: planned 400" in reason.message
    assert "headgate dlq replay" in reason.next
    assert letter.key() == b"one-key"
    assert letter.value() == sent[3].value()
    records = await world.eventually(world.run_records, lambda found: len(found) == 6, "6 run records")
    assert [record["state"] for record in records].count("dead_lettered") == 1
    assert engine.count == 5

    # The engine is corrected; the dead letter's bytes are produced again, twice.
    engine.plan = lambda _run, _attempt: "ok"
    for _ in range(2):
        await world.producer.send(
            world.stack.topics.matched,
            key=letter.key(),
            value=letter.value(),
            headers=deadletter.replay_headers(letter.headers(), "dlq/0/0"),
        )
    records = await world.eventually(world.run_records, lambda found: len(found) == 8, "two more records")
    assert engine.count == 6
    assert sorted(record["state"] for record in records if record["run_id"] == bad) == [
        "dead_lettered",
        "exists",
        "started",
    ]


async def test_a_corrected_trigger_is_used_by_the_replay(world: Any, engine: Any) -> None:
    await world.apply("t", http(engine, body={"n": "{{ event.data.nothing }}"}))
    await world.match("t", range(1))
    await (await world.runner()).ready()
    (letter,) = await world.eventually(world.dead_letters, len, "a dead letter")
    reason = deadletter.read(letter.headers())
    assert reason.code == "template-error"
    assert "body.n: `event.data.nothing` is undefined" in reason.message
    await world.apply("t", http(engine), revision=2)

    async def replayed() -> int:
        # Until the runner has read revision 2, a replay dies as its original did.
        await world.produce(letter.value(), letter.key())
        return int(engine.count)

    await world.eventually(replayed, bool, "a run after the correction")
    assert engine.runs[world.run("t", 0)]["body"] == {"n": 0}
    assert engine.count == 1


async def test_poison_of_every_kind_is_dead_lettered_and_the_partition_goes_on(
    world: Any, engine: Any
) -> None:
    await world.apply("t", http(engine))
    good = world.matched("t", 1)
    poison = {
        "magic": b"\x01" + good[1:],
        "schema": b"\x00\x7f\xff\xff\xff" + good[5:],
        "trailing": good + b"x",
        "short": b"\x00\x00",
        "empty": b"",
        "cut": good[:40],
        "deleted": world.matched("never-applied", 2),
        "json": world.matched("t", 3).replace(b'{"number": 3}', b'{"number": 3!'),
    }
    for value in (*poison.values(), None, good):
        await world.produce(value, "one-key", partition=4)
    await (await world.runner()).ready()
    await world.eventually(world.run_records, len, "the good one's run")
    letters = await world.eventually(world.dead_letters, lambda found: len(found) >= 9, "9 dead letters")
    assert [letter.value() for letter in letters] == [*poison.values(), None]
    reasons = [deadletter.read(letter.headers()) for letter in letters]
    assert [reason.offset for reason in reasons] == list(range(9))
    assert {reason.partition for reason in reasons} == {4}
    codes = [reason.code for reason in reasons]
    assert codes[:2] == ["undecodable", "unknown-schema"]
    assert codes[6] == "trigger-gone"
    assert "trigger never-applied was deleted; apply it again, then replay" in reasons[6].message
    assert codes[7] == "poison"
    assert engine.count == 1


async def test_runs_of_one_key_start_in_order_and_other_keys_do_not_wait(world: Any, engine: Any) -> None:
    first = world.run("t", 0)
    shaky = {world.run("t", number) for number in range(1, 40, 7)}

    def plan(run: str, attempt: int) -> str:
        if run == first:
            return "hang"
        return "500-before" if run in shaky and attempt < 3 else "ok"

    engine.plan = plan
    await world.apply("t", http(engine, timeout="60s"))
    await world.match("t", range(40), keys=5)
    await (await world.runner()).ready()
    await world.eventually(world.run_records, lambda found: len(found) == 32, "the runs of 4 keys")
    engine.let_go.set()
    await world.eventually(world.run_records, lambda found: len(found) == 40, "40 runs")
    number_of = {world.run("t", number): number for number in range(40)}
    first_asked = list(dict.fromkeys(number_of[run] for run in engine.order))
    for key in range(5):
        mine = [number for number in first_asked if number % 5 == key]
        assert mine == sorted(mine)


async def test_backpressure_bounds_what_is_in_hand_by_pausing_and_drops_nothing(
    world: Any, engine: Any
) -> None:
    engine.plan = lambda _run, _attempt: "hang"
    await world.apply("t", http(engine, timeout="60s"))
    await world.match("t", range(600))
    runner = await world.runner(max_running="8", max_running_per_trigger="8", held_per_partition="20")
    await runner.ready()

    async def paused() -> float:
        return float(await runner.metric("headgate_runner_paused_partitions"))

    await world.eventually(paused, lambda count: count == 6, "all partitions paused")
    held = await runner.metric("headgate_runner_held_records")
    assert held <= 6 * (20 + 100), "more in hand than a partition's limit and one batch"
    assert engine.running == 8
    assert (await runner.get("/readyz"))[0] == 200
    engine.plan = lambda _run, _attempt: "ok"
    engine.let_go.set()
    await world.eventually(world.run_records, lambda found: len(found) == 600, "all 600 runs")
    assert engine.count == 600
    assert engine.most_running == 8


async def test_a_hanging_engine_leaves_room_for_other_triggers(world: Any, engine: Any) -> None:
    await world.apply("stuck", http(engine, timeout="60s"))
    await world.apply("fine", http(engine))
    stuck = {world.run("stuck", number) for number in range(40)}
    engine.plan = lambda run, _: "hang" if run in stuck else "ok"
    await world.match("stuck", range(40))
    await world.match("fine", range(100, 140))
    await (await world.runner(max_running="8", max_running_per_trigger="4")).ready()
    records = await world.eventually(world.run_records, lambda found: len(found) == 40, "the fine runs")
    assert {record["trigger"] for record in records} == {"fine"}


async def test_an_engine_that_stays_away_uses_up_the_attempts_and_nothing_more(
    world: Any, engine: Any
) -> None:
    engine.plan = lambda _run, _attempt: "500-before"
    await world.apply("t", http(engine), retry={"attempts": 3})
    await world.match("t", range(4))
    await (await world.runner()).ready()
    letters = await world.eventually(world.dead_letters, lambda found: len(found) == 4, "4 dead letters")
    reason = deadletter.read(letters[0].headers())
    assert reason.code == "retries-exhausted"
    assert "gave up after 3 attempts" in reason.message
    assert "the engine answered 500" in reason.message
    assert set(engine.attempts.values()) == {3}


@pytest.mark.parametrize("seconds", [0, 12], ids=["soon", "later than a session lasts"])
async def test_sigterm_lets_running_calls_finish_and_commits_them(
    seconds: float, world: Any, engine: Any
) -> None:
    engine.plan = lambda _run, _attempt: "hang"
    await world.apply("t", http(engine, timeout="60s"))
    await world.match("t", range(4))
    runner = await world.runner()
    await runner.ready()

    async def running() -> int:
        return int(engine.running)

    await world.eventually(running, lambda count: count == 4, "4 calls in flight")
    stopping = asyncio.create_task(runner.stop())

    async def unready() -> int:
        return int((await runner.get("/readyz"))[0])

    await world.eventually(unready, lambda status: status == 503, "not ready while stopping")
    await asyncio.sleep(seconds)
    engine.let_go.set()
    assert await stopping == 0
    assert len(await world.run_records()) == 4
    assert await asyncio.to_thread(world.committed) == {
        number: end or -1001 for number, end in (await asyncio.to_thread(world.ends)).items()
    }


async def test_the_other_replica_goes_on_when_one_is_killed(world: Any, engine: Any) -> None:
    await world.apply("t", http(engine))
    first, second = await world.runner(), await world.runner()
    await first.ready()
    await second.ready()
    await world.match("t", range(100))
    await world.eventually(world.run_records, lambda found: len(found) == 100, "the first 100 runs")

    await world.match("t", range(100, 200))
    await first.kill()
    await world.match("t", range(200, 300))
    await world.eventually(
        world.run_records, lambda found: len({record["run_id"] for record in found}) == 300, "all 300 runs"
    )
    assert engine.count == 300


async def test_two_replicas_share_the_partitions(world: Any, engine: Any) -> None:
    await world.apply("t", http(engine))
    replicas = [await world.runner(), await world.runner()]
    sent = 0

    async def both_work() -> list[float]:
        nonlocal sent
        await world.match("t", range(sent, sent + 20))
        sent += 20
        return [await replica.metric("headgate_runner_runs_total") for replica in replicas]

    for replica in replicas:
        await replica.ready()
    await world.eventually(both_work, all, "both replicas start runs")
    await world.eventually(
        world.run_records, lambda found: len({record["run_id"] for record in found}) == sent, "all runs"
    )
    assert engine.count == sent
    for replica in replicas:
        assert await replica.stop() == 0


async def test_the_local_engine_writes_each_run_once_to_file_and_topic(world: Any) -> None:
    await world.apply("t", {"local": {"note": "{{ event.type }} no. {{ event.data.number }}"}})
    await world.match("t", range(20))
    await world.match("t", range(20))
    await (await world.runner()).ready()
    await world.eventually(world.run_records, lambda found: len(found) == 40, "40 records")
    path = world.stack.state_dir.parent / "local-runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["run_id"] for line in lines) == sorted(world.run("t", n) for n in range(20))
    assert {line["note"] for line in lines} == {f"test.happened no. {n}" for n in range(20)}
    assert len(await asyncio.to_thread(world.read, world.stack.topics.local_runs)) == 20


async def test_a_record_that_cannot_be_dead_lettered_is_not_committed_and_the_process_ends(
    world: Any, engine: Any
) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(world.stack.kafka.librdkafka())
    for gone in admin.delete_topics([world.stack.topics.dlq]).values():
        await asyncio.to_thread(gone.result, 10)
    await world.produce(b"poison", "k", partition=0)
    runner = await world.runner(stall_seconds="3")
    assert await runner.ended() == 1
    assert "no progress" in runner.log.read_text()
    assert (await asyncio.to_thread(world.committed))[0] <= 0

"""The fake engine misbehaves as told, and never forgets a request."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.harness.engine import Faults, application

Client = TestClient[web.Request, web.Application]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "engine.db"


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[Client]:
    async with TestClient(TestServer(application(database))) as client:
        yield client


async def post(engine: Client, run_id: str, **body: object) -> int:
    async with engine.post("/runs", json=body, headers={"Idempotency-Key": run_id}) as answer:
        return answer.status


def rows(database: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as db:
        return db.execute(f"SELECT run_id, token FROM {table}").fetchall()


async def test_two_starts_of_one_run_are_two_attempts_and_one_run(engine: Client, database: Path) -> None:
    assert [await post(engine, "r1", token="a"), await post(engine, "r1", token="a")] == [200, 200]
    assert rows(database, "attempts") == [("r1", "a"), ("r1", "a")]
    assert rows(database, "runs") == [("r1", "a")]


async def test_a_dropped_reply_has_started_the_run(engine: Client, database: Path) -> None:
    await engine.put("/faults", json={"drop_reply": 1.0})
    with pytest.raises(aiohttp.ClientError):
        await post(engine, "r1", token="a")
    assert rows(database, "runs") == [("r1", "a")]


@pytest.mark.parametrize(
    ("faults", "status", "started"),
    [
        ({"error_before": 1.0}, 500, 0),
        ({"error_after": 1.0}, 500, 1),
        ({"too_many": 1.0}, 429, 0),
        ({"slow": 1.0}, 200, 1),
    ],
)
async def test_each_fault_answers_and_starts_as_named(
    engine: Client,
    database: Path,
    faults: dict[str, float],
    status: int,
    started: int,
) -> None:
    await engine.put("/faults", json=faults)
    assert await post(engine, "r1", token="a") == status
    assert len(rows(database, "runs")) == started


async def test_an_existing_run_is_a_conflict_when_asked_for(engine: Client) -> None:
    await engine.put("/faults", json={"conflict": True})
    assert [await post(engine, "r1", token="a"), await post(engine, "r1", token="a")] == [200, 409]


async def test_a_refused_body_starts_only_after_its_cause_is_fixed(engine: Client, database: Path) -> None:
    assert await post(engine, "r1", token="a", refuse=True) == 400
    assert rows(database, "runs") == []
    await engine.put("/faults", json={"accept_refused": True})
    assert await post(engine, "r1", token="a", refuse=True) == 200
    assert rows(database, "runs") == [("r1", "a")]


def test_faults_are_drawn_the_same_again() -> None:
    faults = Faults(seed=3, drop_reply=0.3, error_after=0.3)
    first = [faults.draw("run", attempt) for attempt in range(50)]
    assert first == [faults.draw("run", attempt) for attempt in range(50)]
    assert {"drop_reply", "error_after", "good"} <= set(first)

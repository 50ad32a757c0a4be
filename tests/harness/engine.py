"""A workflow engine that remembers everything: the judge of "one run".

Its own process and its own database, synced to disk at each start. `attempts` has a row for every request that came;
`runs` has one row per run id, whoever came first. It misbehaves on request (`PUT /faults`): answers 500 before or after
the start, drops the reply after the start, answers 429, is slow. It knows nothing of the pipeline.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
  n INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, token TEXT, at_ns INTEGER, body_sha TEXT, answer TEXT
);
CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, token TEXT, at_ns INTEGER);
"""


@dataclass(frozen=True)
class Faults:
    """How often the engine misbehaves: probabilities of each, drawn per attempt from a seed."""

    seed: int = 0
    error_before: float = 0.0
    error_after: float = 0.0
    drop_reply: float = 0.0
    too_many: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 0.0
    conflict: bool = False
    """A start that exists is answered 409 rather than 200."""
    accept_refused: bool = False
    """Bodies marked `refuse` are accepted: the cause of their 400 was fixed."""

    def draw(self, run_id: str, attempt: int) -> str:
        """What happens to this attempt: the same for the same seed, run and attempt number."""
        dice = random.Random(f"{self.seed}/{run_id}/{attempt}").random()
        for name in ("error_before", "error_after", "drop_reply", "too_many", "slow"):
            dice -= getattr(self, name)
            if dice < 0:
                return name
        return "good"


class Ledger:
    """The two tables, each change on disk before it returns."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(TABLES)

    def close(self) -> None:
        self._db.close()

    def attempts_of(self, run_id: str) -> int:
        found = self._db.execute("SELECT count(*) FROM attempts WHERE run_id = ?", (run_id,)).fetchone()
        return int(found[0])

    def attempt(self, run_id: str, token: str, body: bytes, answer: str, *, start: bool) -> bool:
        """Note one request, and start its run unless it exists. True when this one started it."""
        now = time.monotonic_ns()
        row = (run_id, token, now, hashlib.sha256(body).hexdigest(), answer)
        self._db.execute("BEGIN")
        self._db.execute(
            "INSERT INTO attempts (run_id, token, at_ns, body_sha, answer) VALUES (?,?,?,?,?)", row
        )
        started = 0
        if start:
            insert = "INSERT OR IGNORE INTO runs VALUES (?,?,?)"
            started = self._db.execute(insert, (run_id, token, now)).rowcount
        self._db.execute("COMMIT")
        return started == 1


class Engine:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.faults = Faults()

    async def put_faults(self, request: web.Request) -> web.Response:
        self.faults = Faults(**await request.json())
        return web.json_response({})

    async def start(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        run_id = request.headers.get("Idempotency-Key", "")
        asked: dict[str, Any] = await request.json()
        token = str(asked.get("token", ""))
        if str(asked.get("refuse", "")).lower() == "true" and not self.faults.accept_refused:
            self.ledger.attempt(run_id, token, body, "400", start=False)
            return web.json_response({"error": "this body is refused for good"}, status=400)
        fault = self.faults.draw(run_id, self.ledger.attempts_of(run_id))
        if fault == "error_before":
            self.ledger.attempt(run_id, token, body, "500 before", start=False)
            return web.json_response({"error": "broke before the start"}, status=500)
        if fault == "too_many":
            self.ledger.attempt(run_id, token, body, "429", start=False)
            return web.json_response({"error": "slow down"}, status=429, headers={"Retry-After": "1"})
        if fault == "slow":
            await asyncio.sleep(self.faults.slow_seconds)
        started = self.ledger.attempt(run_id, token, body, fault, start=True)
        if fault == "error_after":
            return web.json_response({"error": "broke after the start"}, status=500)
        if fault == "drop_reply" and request.transport is not None:
            request.transport.abort()
        if self.faults.conflict and not started:
            return web.json_response({"error": "exists", "run": run_id}, status=409)
        return web.json_response({"run": run_id, "started": started})


async def live(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def application(database: Path) -> web.Application:
    ledger = Ledger(database)
    engine = Engine(ledger)

    async def close(_: web.Application) -> None:
        ledger.close()

    app = web.Application()
    app.on_cleanup.append(close)
    app.add_routes(
        [web.post("/runs", engine.start), web.put("/faults", engine.put_faults), web.get("/livez", live)]
    )
    return app


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--database", type=Path, required=True)
    args.add_argument("--port", type=int, required=True)
    given = args.parse_args()
    web.run_app(application(given.database), host="127.0.0.1", port=given.port, print=None, access_log=None)


if __name__ == "__main__":
    main()

"""What every webhook provider promises, over all modules of providers/ and all cases in cases/<name>.json.

A new provider writes nothing here. A case tells how its sender signs (`signing`), and this suite signs again by
itself wherever a negative case needs a right signature over something else.
"""

import ast
import gzip
import hmac
import inspect
import json
import sys
import types
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from pydantic import BaseModel, ValidationError

from headgate.common.catalogue import plug_ins, providers
from headgate.common.errors import Misconfigured
from headgate.common.hooks import Hook, Request, Unreadable
from headgate.ingest_webhook.providers import catalogue, hooks

CASES = Path(__file__).parent / "cases"
ALLOWED_IMPORTS = ("pydantic", "orjson", "headgate.common.", "headgate.ingest_webhook.signatures")


@dataclass(frozen=True)
class Case:
    """One delivery as its sender makes it, and what it means."""

    hook: Hook
    name: str
    config: dict[str, Any]
    secrets: list[str]
    received_at: datetime
    headers: dict[str, bytes]
    body: bytes
    signing: dict[str, Any]
    expect: dict[str, Any]

    @property
    def signs(self) -> bool:
        return "message" in self.signing

    @property
    def proof(self) -> str:
        """Header with the signature or the credential."""
        return str(self.signing["header"])

    @property
    def readable(self) -> bool:
        return "unreadable" not in self.expect

    def but(self, **headers: bytes | None) -> "Case":
        changed = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return replace(self, headers={name: value for name, value in changed.items() if value is not None})

    def with_header(self, name: str, value: bytes) -> "Case":
        return replace(self, headers={**self.headers, name: value})

    def signed(self, *, timestamp: str | None = None) -> "Case":
        """Signed again, independently of the code under test."""
        how = self.signing
        time = how.get("timestamp", "") if timestamp is None else timestamp
        values = {"timestamp": time.encode(), "id": how.get("id", "").encode(), "body": self.body}
        message = how.get("message", "").encode()
        for name, value in values.items():
            message = message.replace(f"{{{name}}}".encode(), value)
        secret = self.secrets[-1]
        key = b64decode(secret.removeprefix("whsec_")) if how.get("key") == "base64" else secret.encode()
        digest = hmac.new(key, message, how.get("algorithm", "sha256")).digest()
        signature = b64encode(digest).decode() if how.get("encoding") == "base64" else digest.hex()
        basic = b64encode(f"{how.get('username')}:{secret}".encode()).decode()
        proof = how["value"].format(signature=signature, timestamp=time, secret=secret, basic=basic)
        headers = {**self.headers, self.proof: proof.encode()}
        if "timestamp_header" in how:
            headers[how["timestamp_header"]] = time.encode()
        return replace(self, headers=headers)


def cases_of(hook: Hook) -> list[Case]:
    path = CASES / f"{hook.name}.json"
    if not path.exists():
        return []
    return [
        Case(
            hook,
            one["name"],
            one["config"],
            one["secrets"],
            datetime.fromisoformat(one["received_at"]),
            {name: value.encode() for name, value in one["headers"]},
            one["body"].encode(),
            one["signing"],
            one["expect"],
        )
        for one in json.loads(path.read_text("utf-8"))
    ]


every_hook = pytest.mark.parametrize("hook", [pytest.param(hook, id=name) for name, hook in hooks().items()])
ALL = [case for hook in hooks().values() for case in cases_of(hook)]
every_case = pytest.mark.parametrize(
    "case", [pytest.param(one, id=f"{one.hook.name}-{one.name}") for one in ALL]
)


# What a module must be


@every_hook
def test_a_provider_has_recorded_cases_and_one_of_them_makes_an_event(hook: Hook) -> None:
    assert any(case.readable for case in cases_of(hook)), f"write tests/cases/{hook.name}.json"


def test_no_case_is_left_behind_by_a_provider_that_is_gone() -> None:
    assert {path.stem for path in CASES.glob("*.json")} == set(hooks())


def models_under(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if inspect.isclass(part) and issubclass(part, BaseModel):
                yield from models_under(part)


@every_hook
def test_every_field_is_described_and_unknown_ones_are_refused(hook: Hook) -> None:
    assert inspect.getdoc(hook.config)
    for model in models_under(hook.config):
        assert [name for name, field in model.model_fields.items() if not field.description] == []
        assert model.model_config.get("extra") == "forbid"
    with pytest.raises(ValidationError):
        hook.config.model_validate(
            {"secrets": [{"env": "X"}], **cases_of(hook)[0].config, "no_such_field": 1}
        )


@every_hook
def test_a_provider_imports_only_values_and_signatures(hook: Hook) -> None:
    source = Path(inspect.getfile(hook.receive)).read_text("utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    forbidden = {"socket", "time", "os", "asyncio", "logging", "threading", "random", "secrets", "subprocess"}
    strangers = {
        name
        for name in imported
        if name in forbidden
        or not (
            name in sys.stdlib_module_names
            or name.startswith(ALLOWED_IMPORTS)
            or name == "urllib.parse"
            or name == "collections.abc"
        )
    }
    assert strangers == set()


@every_hook
def test_the_deadline_is_shorter_than_any_provider_waits(hook: Hook) -> None:
    assert 0 < hook.deadline_seconds < 10


@every_hook
@pytest.mark.parametrize("secrets", [[], [b""], [b"0123456789abcdef0123456789abcdef", b""]])
def test_an_empty_secret_is_refused_before_anything_is_verified(hook: Hook, secrets: list[bytes]) -> None:
    with pytest.raises(Misconfigured):
        hook.prepare(secrets, hook.config.model_construct(secrets=()))


@every_hook
def test_no_header_with_a_credential_becomes_an_attribute(hook: Hook) -> None:
    proofs = {case.proof.lower() for case in cases_of(hook)}
    assert proofs.isdisjoint(hook.attributes)
    assert all(name == name.lower() for name in hook.attributes)


def test_two_modules_of_one_name_stop_start_up_and_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clashing_providers"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text("from headgate.ingest_webhook.providers.github import HOOK\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = types.ModuleType("clashing_providers")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "clashing_providers", package)
    with pytest.raises(
        Misconfigured, match=r"clashing_providers\.two and clashing_providers\.one .*'github'"
    ):
        plug_ins(package, "HOOK")


def test_the_command_line_finds_every_provider_through_the_entry_point() -> None:
    assert {one.name for one in catalogue()} <= set(providers())
    assert {
        "github-webhook",
        "stripe-webhook",
        "pagerduty-webhook",
        "standard-webhooks",
        "generic-webhook",
    } <= set(providers())


# What `receive` makes of a right delivery


@every_case
def test_a_recorded_delivery_means_what_its_case_says(case: Case) -> None:
    config = case.hook.config.model_validate({"secrets": [{"env": "X"}], **case.config})
    keys = case.hook.prepare([secret.encode() for secret in case.secrets], config)
    headers = CIMultiDict({name: value.decode() for name, value in case.headers.items()})
    request = Request(headers, case.body, case.received_at)
    if not case.readable:
        with pytest.raises(Unreadable, match=case.expect["unreadable"]):
            case.hook.receive(keys, request, config)
        return
    event, *more = case.hook.receive(keys, request, config)
    assert more == []
    assert (event.key, event.type, event.subject) == tuple(
        case.expect[name] for name in ("key", "type", "subject")
    )
    assert event.occurred_at == datetime.fromisoformat(case.expect["occurred_at"])
    json.loads(event.data)
    if case.config.get("body") != "form":
        assert event.data == case.expect.get("data", case.body.decode())
    assert case.hook.receive(keys, request, config) == [event]


@every_case
def test_the_suite_signs_as_the_sender_does(case: Case) -> None:
    """Or the negative cases below would prove nothing."""
    sent, again = case.headers[case.proof], case.signed().headers[case.proof]
    assert again == sent or again.split(b",")[-1] in sent


# What the service answers, over a socket


def bent(case: Case, old: bytes, new: bytes) -> Case:
    return case.with_header(case.proof, case.headers[case.proof].replace(old, new))


def negatives(case: Case) -> Iterator[tuple[str, Case, int]]:
    """Each negative case of the guarantees, with the status it must have."""
    proof = case.headers[case.proof]
    yield "header missing", case.but(**{case.proof: None}), 401
    yield "header empty", case.with_header(case.proof, b""), 401
    yield "wrong prefix", case.with_header(case.proof, b"x" + proof), 401
    yield "not ASCII", case.with_header(case.proof, proof + "é".encode()), 401
    yield "not UTF-8", case.with_header(case.proof, b"\xff\xfe" + proof), 401
    yield "wrong secret", replace(case, secrets=[f"{case.secrets[-1][:-1]}A"]), 401
    yield (
        "second secret is the right one",
        replace(case, secrets=[f"{case.secrets[-1][:-1]}A", *case.secrets]),
        202,
    )
    yield "truncated", case.with_header(case.proof, proof[:-1]), 401
    yield "too long", case.with_header(case.proof, proof + b"0"), 401
    yield (
        "stranger with an empty body",
        replace(case, body=b"", secrets=["c3RyYW5nZXItc3RyYW5nZXItMQ=="]),
        401,
    )
    if not case.signs:
        return
    signature = re_signature(case)
    yield "other case", bent(case, signature, signature.swapcase()), 401
    yield "not in the alphabet", bent(case, signature, b"z" * len(signature)), 401
    yield "one bit flipped", replace(case, body=case.body[:-1] + bytes([case.body[-1] ^ 1])), 401
    yield "empty body with an old signature", replace(case, body=b""), 401
    yield "empty body, signed", replace(case, body=b"").signed(), 202
    yield "not UTF-8, signed", replace(case, body=b'{"a":"\xff"}').signed(), 202
    yield "not UTF-8, unsigned", replace(case, body=b'{"a":"\xff"}'), 401
    yield "broken JSON, signed", replace(case, body=b'{"a":').signed(), 202
    squeezed = replace(case, body=gzip.compress(case.body, mtime=0)).with_header("Content-Encoding", b"gzip")
    yield "inflated before it was signed", squeezed, 401
    yield "gzip, signed as sent", squeezed.signed(), 202
    bomb = replace(case, body=gzip.compress(bytes(2_000_000))).with_header("Content-Encoding", b"gzip")
    yield "bomb, unsigned", bomb, 401
    yield "bomb, signed", bomb.signed(), 413
    yield "encoding nobody knows", case.with_header("Content-Encoding", b"br"), 415
    yield "type nobody reads", case.with_header("Content-Type", b"image/png"), 415
    yield "charset nobody reads", case.with_header("Content-Type", b"application/json; charset=utf-16"), 415
    if case.readable and case.body[:1] == b"{":
        yield (
            "JSON written again",
            replace(case, body=json.dumps(json.loads(case.body), indent=1).encode()),
            401,
        )
    if "timestamp" in case.signing:
        now = datetime.fromtimestamp(int(case.signing["timestamp"]), case.received_at.tzinfo)
        yield "301 s old", replace(case, received_at=now + timedelta(seconds=301)), 401
        yield "301 s early", replace(case, received_at=now - timedelta(seconds=301)), 401
        yield "299 s old", replace(case, received_at=now + timedelta(seconds=299)), 202
        for odd in (
            "soon",
            "-1614265330",
            "9" * 40,
            "9" * 5000,
            "1e9",
            "0x5f",
            " 1",
            "",
            "1614265330.5",
            "\u0661",
        ):
            if odd.isascii() and len(odd) < 8000:
                yield f"timestamp {odd[:12]!r}", case.signed(timestamp=odd), 401


def re_signature(case: Case) -> bytes:
    before, _, after = case.signing["value"].partition("{signature}")
    prefix = before.format(timestamp=case.signing.get("timestamp", "")).encode()
    sent = case.signed().headers[case.proof]
    return sent[len(prefix) : len(sent) - len(after)]


NEGATIVES = [
    pytest.param(changed, status, id=f"{case.hook.name}-{case.name}-{what}")
    for case in ALL
    for what, changed, status in negatives(case)
]


async def deliver(open_door: Any, source: Any, case: Case, tmp_path: Path, **how: Any) -> tuple[Any, Any]:
    """Send the case as it is to a service that has its secrets in files."""
    references = []
    for number, secret in enumerate(case.secrets):
        (tmp_path / str(number)).write_text(secret)
        references.append({"file": str(tmp_path / str(number))})
    config = {**case.config, "secrets": references}
    door = await open_door(source("hook-1", case.hook.provider, config), now=case.received_at)
    path = f"/webhooks/{case.hook.name}/hook-1"
    return door, await door.post(path, list(case.headers.items()), case.body, **how)


@pytest.mark.parametrize(("case", "status"), NEGATIVES)
async def test_a_bent_delivery_is_answered_with_its_status(
    case: Case, status: int, open_door: Any, source: Any, tmp_path: Path
) -> None:
    door, answer = await deliver(open_door, source, case, tmp_path)
    assert answer.status == status, answer.body
    assert len(door.outbox.sent) == (1 if status == 202 else 0)
    assert not any(secret.encode() in answer.body for secret in case.secrets)


@every_case
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_right_delivery_is_stored_and_then_accepted(
    case: Case, chunked: bool, open_door: Any, source: Any, tmp_path: Path
) -> None:
    door, answer = await deliver(open_door, source, case, tmp_path, chunked=chunked)
    assert answer.status == 202, answer.body
    (record,) = door.outbox.sent
    assert record.headers["ce_id"].decode() == answer.words["event_id"]
    if case.readable:
        assert (record.topic, json.loads(record.value)["type"]) == (
            "headgate.events.raw",
            case.expect["type"],
        )
    else:
        assert (record.topic, record.value) == ("headgate.events.dlq", case.body)


@every_case
async def test_a_proof_that_comes_twice_is_refused(
    case: Case, open_door: Any, source: Any, tmp_path: Path
) -> None:
    door, _ = await deliver(open_door, source, case, tmp_path)
    doubled = [*case.headers.items(), (case.proof.upper(), case.headers[case.proof])]
    answer = await door.post(f"/webhooks/{case.hook.name}/hook-1", doubled, case.body)
    assert answer.status == 401
    assert "came 2 times" in answer.words["error"]
    assert len(door.outbox.sent) == 1


@every_hook
async def test_a_source_whose_secret_is_empty_answers_503_to_everybody(
    hook: Hook, open_door: Any, source: Any, tmp_path: Path
) -> None:
    case = replace(cases_of(hook)[0], secrets=[""])
    _, answer = await deliver(open_door, source, case, tmp_path)
    assert answer.status == 503
    assert answer.headers["retry-after"]

"""Test who may come in by an API key or an identity token, and for which tenant the gateway then calls."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Call
from fathom.core.config import ConfigError
from fathom.hosting.host import Runtime, hosting_http
from fathom.services.gateway.config import Config
from fathom.services.gateway.users import Users, hash_key, make_key
from tests.e2e.replay import ReplayHouse
from tests.support.waiting import eventually

Opened = Callable[..., AbstractAsyncContextManager[tuple[httpx.AsyncClient, ReplayHouse]]]
AUDIENCE = "fathom-test"


async def ask(client: httpx.AsyncClient, token: str, **headers: str) -> httpx.Response:
    return await client.get("/v1/models", headers={"authorization": f"Bearer {token}", **headers})


@pytest.fixture
def policy_calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Calls as policy's double receives them."""
    calls: list[Call] = []

    async def list_models(self: object, request: object, call: Call) -> policy.ListModelsResponse:
        calls.append(call)
        return policy.ListModelsResponse()

    monkeypatch.setattr("tests.e2e.replay.ReplayPolicy.ListModels", list_models)
    return calls


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    """A file with one key, and the key."""
    key, line = make_key("research", "fund-7")
    path = tmp_path / "keys.jsonl"
    path.write_text(f"{line}\n")
    return path, key


async def test_a_keys_tenant_is_the_callers_whatever_the_headers_say(
    open_with: Opened, keys: tuple[Path, str], policy_calls: list[Call]
) -> None:
    path, key = keys
    async with open_with(api_keys_file=str(path)) as (client, _):
        assert (await ask(client, key, **{"fathom-tenant": "fund-8", "fathom-principal": "root"})).status_code == 200
    assert {(call.tenant, call.principal) for call in policy_calls} == {("fund-7", "key:research")}


@pytest.mark.parametrize("token", ["", "fk_wrong", "Bearer", "a.b.c"])
async def test_without_a_known_key_nobody_comes_in(open_with: Opened, keys: tuple[Path, str], token: str) -> None:
    async with open_with(api_keys_file=str(keys[0])) as (client, _):
        refused = await ask(client, token)
        assert (refused.status_code, refused.json()["reason"]) == (401, "UNAUTHENTICATED")


async def test_keys_are_kept_as_hashes_and_end(open_with: Opened, keys: tuple[Path, str]) -> None:
    path, key = keys
    assert key not in path.read_text()
    assert json.loads(path.read_text())["sha256"] == hash_key(key)
    ended, line = make_key("old", "fund-7", expires="2020-01-01")
    path.write_text(f"{line}\n")
    async with open_with(api_keys_file=str(path)) as (client, _):
        assert (await ask(client, ended)).status_code == 401


async def test_a_key_is_withdrawn_by_removing_its_line(open_with: Opened, keys: tuple[Path, str]) -> None:
    path, key = keys
    async with open_with(api_keys_file=str(path)) as (client, _):
        assert (await ask(client, key)).status_code == 200
        path.write_text("")
        assert (await ask(client, key)).status_code == 401


@pytest.mark.parametrize(
    "line",
    ["{", '{"name": "a"}', '{"name": "a", "tenant": "x/y", "sha256": "' + "0" * 64 + '"}', '{"sha256": "short"}',
     '{"name": "a", "tenant": "b", "sha256": "' + "0" * 64 + '", "expires": "soon"}', "[]"],
)  # fmt: skip
def test_a_line_that_is_no_key_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(ConfigError, match=r"gateway\.api_keys_file .*line 2"):
        Users.open(Config(api_keys_file=str(path)))


@dataclass
class Provider:
    """An OpenID provider on loopback, and what it has been asked."""

    key: EllipticCurvePrivateKey
    url: str = ""
    asked: int = 0
    name: str = "key-1"
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self.gate.wait()
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return web.json_response({"keys": [{**public, "kid": self.name, "alg": "ES256", "use": "sig"}]})

    def sign(self, *, kid: str = "", **claims: Any) -> str:
        now = int(time.time())
        usual = {
            "iss": self.url, "aud": AUDIENCE, "sub": "alice", "tenant": "fund-7", "iat": now, "exp": now + 600
        }  # fmt: skip
        kept = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(kept, self.key, algorithm="ES256", headers={"kid": kid or self.name})

    def settings(self) -> dict[str, str]:
        return {"oidc_issuer": self.url, "oidc_audience": AUDIENCE, "oidc_jwks_url": f"{self.url}/keys"}


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    made = Provider(generate_private_key(SECP256R1()))
    made.gate.set()
    app = web.Application()
    app.router.add_get("/keys", made.publish)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def test_an_identity_token_opens_the_door_to_its_tenant(
    open_with: Opened, provider: Provider, policy_calls: list[Call]
) -> None:
    async with open_with(**provider.settings()) as (client, _):
        for _ in range(3):
            assert (await ask(client, provider.sign())).status_code == 200
    assert {(call.tenant, call.principal) for call in policy_calls} == {("fund-7", "user:alice")}
    assert provider.asked == 1, "keys are fetched once"


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"exp": int(time.time()) - 60}, 401),
        # A day ahead: the tokens are described when tests are collected, minutes before they are made.
        ({"iat": int(time.time()) + 86_400, "exp": int(time.time()) + 86_700}, 401),
        ({"exp": int(time.time()) + 30 * 86_400}, 401),
        ({"exp": None}, 401),
        ({"aud": "another-app"}, 401),
        ({"iss": "https://elsewhere.example"}, 401),
        ({"kid": "unknown"}, 401),
        ({"tenant": None}, 403),
        ({"tenant": "../fund-8"}, 403),
        ({"tenant": ["fund-7"]}, 403),
    ],
)
async def test_identity_tokens_that_prove_nothing_are_refused(
    open_with: Opened, provider: Provider, claims: dict[str, Any], status: int
) -> None:
    async with open_with(**provider.settings()) as (client, _):
        assert (await ask(client, provider.sign(**claims))).status_code == status


async def test_tokens_of_others_are_refused(open_with: Opened, provider: Provider) -> None:
    other = Provider(generate_private_key(SECP256R1()), provider.url)
    claims = {"iss": provider.url, "aud": AUDIENCE, "sub": "alice", "tenant": "fund-7", "exp": 9_999_999_999, "iat": 1}
    unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": provider.name})
    symmetric = jwt.encode(claims, "x" * 32, algorithm="HS256", headers={"kid": provider.name})
    async with open_with(**provider.settings()) as (client, _):
        for token in (other.sign(), unsigned, symmetric):
            assert (await ask(client, token)).status_code == 401


async def test_nobody_comes_in_without_the_providers_keys(open_with: Opened, provider: Provider) -> None:
    async with open_with(**{**provider.settings(), "oidc_jwks_url": f"{provider.url}/gone"}) as (client, _):
        refused = await ask(client, provider.sign())
        assert (refused.status_code, refused.json()["culprit"]) == (502, "identity provider")


async def test_callers_wait_for_keys_that_another_has_asked_for(open_with: Opened, provider: Provider) -> None:
    provider.gate.clear()
    async with open_with(**provider.settings()) as (client, _):
        asking = [asyncio.create_task(ask(client, provider.sign())) for _ in range(3)]
        await eventually(lambda: provider.asked)
        provider.gate.set()
        assert [answer.status_code for answer in await asyncio.gather(*asking)] == [200] * 3
    assert provider.asked == 1


async def test_while_there_are_no_keys_no_token_is_called_wrong(open_with: Opened, provider: Provider) -> None:
    async with open_with(**{**provider.settings(), "oidc_jwks_url": f"{provider.url}/gone"}) as (client, _):
        refused = [await ask(client, provider.sign()) for _ in range(2)]
    # The second one comes before the provider is asked again.
    assert [one.status_code for one in refused] == [502, 503]


def test_a_provider_needs_all_its_settings() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.oidc_jwks_url"):
        Users.open(Config(oidc_issuer="https://id.example", oidc_audience=AUDIENCE))


async def test_an_open_gateway_beyond_loopback_does_not_start(open_with: Opened) -> None:
    async with open_with() as (_, house):
        with pytest.raises(ConfigError, match="FATHOM_GATEWAY_API_KEYS_FILE"):
            async with hosting_http(house.service, None, Runtime(host="0.0.0.0")):  # type: ignore[arg-type]
                pass

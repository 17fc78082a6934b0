"""The one rule of access, over every RPC of every service and every transport that carries it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from google.protobuf.descriptor import Descriptor

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.core.config import ConfigError
from fathom.core.identity import ANY_SERVICE, OPERATOR, SERVICE, SETTING, USER, Tokens, make_keys, read_keys
from fathom.core.telemetry import Telemetry
from fathom.hosting.host import require_loopback
from fathom.transport.rpc import access
from fathom.transport.rpc.access import DECLARED, Scope, access_of
from fathom.transport.rpc.contract import Method, contract
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.contract.conftest import PUBLIC, SIGNING, TOKENS
from tests.contract.mirror import Mirror, sample
from tests.contract.test_transports import METHODS, House, cases, invoke

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Fields of the contract that name what belongs to a tenant: an RPC that takes one must be declared as a tenant's.
OWNED_FIELDS = frozenset({"run_id", "conversation_id", "session_id", "sheet_id", "sheet_ids", "rollout_id", "fact_id"})


async def test_every_rpc_declares_whose_things_it_is_about_and_none_is_declared_that_is_gone() -> None:
    declared = {(service, name) for service, methods in DECLARED.items() for name in methods}
    assert declared == {(method.service, method.name) for method in METHODS}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
async def test_declarations_name_fields_of_the_request(method: Method) -> None:
    descriptor: Descriptor | None = method.request_type.DESCRIPTOR
    for name in filter(None, access_of(method).resource.split(".")):
        assert descriptor is not None
        descriptor = descriptor.fields_by_name[name].message_type


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
async def test_what_names_a_tenants_thing_is_declared_as_the_tenants(method: Method) -> None:
    owned = OWNED_FIELDS & set(method.request_type.DESCRIPTOR.fields_by_name)
    assert not owned or access_of(method).scope is Scope.TENANT


async def test_a_service_with_an_undeclared_rpc_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {name: rule for name, rule in DECLARED["memory"].items() if name != "ListTurns"}
    monkeypatch.setattr(access, "DECLARED", {**DECLARED, "memory": fewer})
    with pytest.raises(errors.Internal, match=r"memory\.ListTurns declares no access"):
        Dispatcher(Service("memory", Mirror("memory")), Telemetry("test", log_level="critical"))


@pytest.mark.parametrize(("method", "transport"), cases(METHODS))
async def test_nobody_enters_without_a_token(house: House, method: Method, transport: str) -> None:
    mirrors, connect = house
    seen = len(mirrors[method.service].seen)
    with pytest.raises(errors.Unauthenticated):
        await invoke(connect(transport, token="none"), method)
    assert len(mirrors[method.service].seen) == seen


@pytest.mark.parametrize(("method", "transport"), cases(METHODS))
async def test_only_operators_change_what_all_tenants_share(house: House, method: Method, transport: str) -> None:
    _, connect = house
    clients = connect(transport, tenant="fund-7", role=USER)
    if access_of(method).scope is Scope.OPERATOR:
        with pytest.raises(errors.PermissionDenied, match="operators"):
            await invoke(clients, method)
    else:
        assert await invoke(clients, method)


GET_RUN = contract("planner").methods["GetRun"]


def forge(**claims: Any) -> str:
    """Return a token with the right key and these claims in place of a user's."""
    now = int(time.time())
    usual = {
        "iss": "fathom", "sub": "alice", "aud": ANY_SERVICE, "role": USER, "tenant": "fund-7", "iat": now,
        "exp": now + 60,
    }  # fmt: skip
    kept = {name: value for name, value in (usual | claims).items() if value is not None}
    return jwt.encode(kept, read_keys(SIGNING)[0], algorithm="EdDSA")


@pytest.mark.parametrize(
    ("make_token", "message"),
    [
        (lambda: Tokens(make_keys()[0]).sign("alice", ANY_SERVICE, role=USER, tenant="fund-7"), "not valid"),
        (lambda: jwt.encode({"sub": "alice", "aud": ANY_SERVICE}, "", algorithm="none"), "not valid"),
        # The public key is known to many: it must not pass as a symmetric one.
        (lambda: jwt.encode({"sub": "alice", "aud": ANY_SERVICE}, "x" * 32, algorithm="HS256"), "not valid"),
        (lambda: forge(exp=int(time.time()) - 60), "expired"),
        (lambda: forge(iat=int(time.time()) + 600, exp=int(time.time()) + 660), "not valid yet"),
        (lambda: forge(exp=int(time.time()) + 400 * 86_400), "more than 90 days"),
        (lambda: forge(exp=None), "not valid"),
        (lambda: forge(exp="tomorrow"), "not valid|more than"),
        (lambda: forge(aud="memory"), "not for planner"),
        (lambda: forge(iss="elsewhere"), "not valid"),
        (lambda: forge(role="king"), "no role"),
        (lambda: forge(tenant=""), "no role and tenant"),
        (lambda: forge(tenant=7), "no role and tenant"),
        (lambda: "a.b.c", "not valid"),
    ],
)
@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_tokens_that_prove_nothing_are_refused(
    house: House, transport: str, make_token: Callable[[], str], message: str
) -> None:
    _, connect = house
    # Made here and not when tests are collected: minutes may lie between, and tokens last one.
    token = make_token()
    with pytest.raises(errors.Unauthenticated, match=message):
        await invoke(connect(transport, token=token), GET_RUN)


@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_the_tenant_is_the_tokens_and_not_the_headers(house: House, transport: str) -> None:
    mirrors, connect = house
    clients = connect(transport, tenant="fund-7", role=USER)
    await invoke(clients, GET_RUN)
    assert mirrors["planner"].seen[-1][2].tenant == "fund-7"
    with calling(Call.new(tenant="fund-8")), pytest.raises(errors.PermissionDenied, match="fund-8"):
        await invoke(clients, GET_RUN)


@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_services_call_for_the_tenant_and_the_person_that_they_name(house: House, transport: str) -> None:
    mirrors, connect = house
    clients = connect(transport, token=TOKENS.sign("service:gateway", "planner", role=SERVICE))
    with calling(Call("req_1", tenant="fund-8", principal="key:research")):
        await invoke(clients, GET_RUN)
    arrived = mirrors["planner"].seen[-1][2]
    assert (arrived.tenant, arrived.principal, arrived.is_operator) == ("fund-8", "key:research", False)


@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_a_token_that_one_service_has_accepted_is_refused_by_the_others(house: House, transport: str) -> None:
    _, connect = house
    clients = connect(transport, token=TOKENS.sign("service:gateway", "planner", role=SERVICE))
    assert await invoke(clients, GET_RUN)
    # Whoever has seen it there, such as a service that was taken over, cannot use it elsewhere.
    with pytest.raises(errors.Unauthenticated, match="not for memory"):
        await invoke(clients, contract("memory").methods["ListTurns"])


@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_a_request_that_another_tenant_repeats_is_not_answered_with_the_first_ones_outcome(
    house: House, transport: str
) -> None:
    mirrors, connect = house
    branch = contract("planner").methods["BranchRun"]
    request = sample(branch.request_type)
    request.request_id = f"overheard-{transport}"  # type: ignore[attr-defined]

    async def ask(tenant: str) -> None:
        client = connect(transport, token=TOKENS.sign("alice", ANY_SERVICE, role=USER, tenant=tenant)).planner
        await client.unary(branch, request, 20.0)

    async def list_tenants() -> list[str]:
        await asyncio.gather(*(ask(tenant) for tenant in ("fund-7", "fund-8", "fund-7", "fund-8")))
        return sorted(call.tenant for name, _, call in mirrors["planner"].seen[seen:] if name == branch.name)

    seen = len(mirrors["planner"].seen)
    assert await list_tenants() == ["fund-7", "fund-8"]


async def test_a_new_key_signs_while_tokens_of_the_old_one_are_accepted() -> None:
    (old, _), (new, _) = make_keys(), make_keys()
    token = Tokens(old).sign("alice", ANY_SERVICE, role=OPERATOR, tenant="fund-7")
    assert Tokens(new + old).verify(token, "planner").name == "alice"
    with pytest.raises(errors.Unauthenticated):
        Tokens(new).verify(token, "planner")


async def test_who_has_the_public_key_alone_verifies_and_cannot_sign() -> None:
    sandbox = Tokens(PUBLIC)
    assert sandbox.verify(TOKENS.sign("service:planner", "sandbox", role=SERVICE), "sandbox").role == SERVICE
    with pytest.raises(ConfigError, match="private key"):
        sandbox.sign("service:planner", "planner", role=SERVICE)


async def test_a_token_that_was_accepted_is_refused_once_it_has_expired() -> None:
    now = [1_000.0]
    tokens = Tokens(SIGNING, clock=lambda: now[0])
    token = tokens.sign("alice", ANY_SERVICE, role=USER, tenant="fund-7", lifetime_s=60)
    assert tokens.verify(token, "planner").tenant == "fund-7"
    now[0] += 75
    with pytest.raises(errors.Unauthenticated, match="expired"):
        tokens.verify(token, "planner")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no key"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "cannot be read"),
    ],
)
async def test_a_file_without_keys_is_refused_by_its_setting(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.pem"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"runtime\.identity_file .*{message}"):
        Tokens.open(str(path))
    with pytest.raises(ConfigError, match=r"FATHOM_RUNTIME_IDENTITY_FILE.*cannot be read"):
        Tokens.open(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("host", "starts"),
    [
        *((host, False) for host in ("0.0.0.0", "::", "192.0.2.7", "fathom.example")),
        *((host, True) for host in ("127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost")),
    ],
)
async def test_without_identity_a_service_listens_on_loopback_only(host: str, starts: bool) -> None:
    refusals = []
    try:
        require_loopback("planner", host, SETTING)
    except ConfigError as error:
        refusals.append(error.message)
    assert len(refusals) == (not starts)
    assert all("FATHOM_RUNTIME_IDENTITY_FILE" in message for message in refusals)

"""The one rule of access, over every RPC of every service and every transport that carries it."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from google.protobuf.descriptor import Descriptor

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.core.identity import ANY_SERVICE, OPERATOR, SERVICE, USER, Tokens
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc import access
from fathom.transport.rpc.access import DECLARED, Scope, access_of
from fathom.transport.rpc.contract import Method, contract
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.contract.conftest import TOKENS
from tests.contract.mirror import Mirror
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
    return jwt.encode({name: value for name, value in (usual | claims).items() if value is not None}, "k" * 32)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (Tokens(["other" * 8]).sign("alice", ANY_SERVICE, role=USER, tenant="fund-7"), "not valid"),
        (jwt.encode({"sub": "alice", "aud": ANY_SERVICE}, "", algorithm="none"), "not valid"),
        (forge(exp=int(time.time()) - 60), "expired"),
        (forge(iat=int(time.time()) + 600, exp=int(time.time()) + 660), "not valid yet"),
        (forge(exp=int(time.time()) + 400 * 86_400), "more than 90 days"),
        (forge(exp=None), "not valid"),
        (forge(exp="tomorrow"), "not valid|more than"),
        (forge(aud="memory"), "not for planner"),
        (forge(iss="elsewhere"), "not valid"),
        (forge(role="king"), "no role"),
        (forge(tenant=""), "no role and tenant"),
        (forge(tenant=7), "no role and tenant"),
        ("a.b.c", "not valid"),
    ],
)
@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
async def test_tokens_that_prove_nothing_are_refused(house: House, transport: str, token: str, message: str) -> None:
    _, connect = house
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


async def test_a_new_key_signs_while_tokens_of_the_old_one_are_accepted() -> None:
    old, new = "o" * 32, "n" * 32
    token = Tokens([old]).sign("alice", ANY_SERVICE, role=OPERATOR, tenant="fund-7")
    assert Tokens([new, old]).verify(token, "planner").name == "alice"
    with pytest.raises(errors.Unauthenticated):
        Tokens([new]).verify(token, "planner")

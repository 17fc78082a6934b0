"""Contexts that no call has: a lane, deadline, tenant or id that is none is refused by its name, over every transport."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from fathom.core import errors
from fathom.core.call import DEADLINE_HEADER, LANE_HEADER, REQUEST_ID_HEADER, TENANT_HEADER, Call
from fathom.core.identity import ANY_SERVICE, SERVICE, USER
from fathom.transport.rpc.contract import contract
from tests.contract.conftest import TOKENS
from tests.contract.mirror import sample
from tests.contract.test_access import GET_RUN
from tests.contract.test_transports import House, invoke

pytestmark = pytest.mark.asyncio(loop_scope="session")
TRANSPORTS = ["grpc", "nats", "inproc"]


@dataclass(frozen=True)
class Altered(Call):
    """A call that sends other headers than it has."""

    changes: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        return {**super().headers(), **self.changes}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((LANE_HEADER, value) for value in ("vip", "", "INTERACTIVE", "LANE_TRAINING", "0", "train ing")),
        *((DEADLINE_HEADER, value) for value in ("soon", "-1", "1.5", "")),
        *((TENANT_HEADER, value) for value in ("../fund-8", "fund-8=run_1", "", "a" * 129)),
        *((REQUEST_ID_HEADER, value) for value in ("a b", "runs/1", "a" * 129)),
    ],
)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_header_that_says_what_is_not_is_refused_by_its_name(
    house: House, transport: str, name: str, value: str
) -> None:
    mirrors, connect = house
    client, seen = connect(transport).planner, len(mirrors["planner"].seen)
    token = TOKENS.sign("service:gateway", "planner", role=SERVICE)
    call = Altered("req_1", deadline=time.monotonic() + 20, token=token, changes={name: value})
    with pytest.raises(errors.InvalidField) as refused:
        await client.transport.unary(GET_RUN, sample(GET_RUN.request_type), call)
    assert (refused.value.field, refused.value.code) == (name, "INVALID_ARGUMENT")
    assert len(mirrors["planner"].seen) == seen


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_token_that_one_service_has_accepted_is_refused_by_the_others(house: House, transport: str) -> None:
    _, connect = house
    clients = connect(transport, token=TOKENS.sign("service:gateway", "planner", role=SERVICE))
    assert await invoke(clients, GET_RUN)
    # Whoever has seen it there, such as a service that was taken over, cannot use it elsewhere.
    with pytest.raises(errors.Unauthenticated, match="not for memory"):
        await invoke(clients, contract("memory").methods["ListTurns"])


@pytest.mark.parametrize("transport", TRANSPORTS)
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

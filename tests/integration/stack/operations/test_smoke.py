"""deploy/smoke.py, which `make smoke` asks a cluster with, against the gateway of a real stack."""

from __future__ import annotations

import asyncio

import pytest

from deploy import smoke
from fathom.clients import Clients
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_the_smoke_question_is_answered_with_citations(
    stack: tuple[Endpoints, Clients], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints, _ = stack
    status = await asyncio.to_thread(smoke.main, [endpoints.gateway], {"DEADLINE_S": "90"})
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    assert "model rules" in said.out

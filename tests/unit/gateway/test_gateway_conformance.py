"""The gateway against its own OpenAPI document: requests of all kinds that it allows and forbids, by Schemathesis.

Whatever is sent, the answer has a status, a media type and a form that the document names, and is no defect. Requests
are derived from the document alone, the same in each run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.internal.conjecture import providers
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckContext
from schemathesis.core.transport import Response
from schemathesis.specs.openapi import checks

from tests.e2e.script import SHEET_ID
from tests.unit.gateway.conftest import open_door

DOCUMENT = json.loads((Path(__file__).parents[2] / "golden" / "openapi.json").read_text(encoding="utf-8"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}
# Things that are there, so that not every answer is 404.
KNOWN = {"run_id": "run_1", "conversation_id": "conv_run_1", "sheet_id": SHEET_ID}


def is_no_defect(ctx: CheckContext, response: Response, case: Case) -> None:
    """Fail for an error that the gateway has not foreseen.

    Other services are doubles, which do not implement all (501) and may fail inside, as their ``culprit``.
    """
    assert response.status_code != 500 or b'"culprit"' in response.content, response.text


# That all that the document allows is accepted is not checked: a blank question, or an unknown file, is refused.
CHECKS = [
    is_no_defect,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
EXAMPLES = 4
ONCE = settings(
    derandomize=True, database=None, deadline=None, max_examples=EXAMPLES, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@asynccontextmanager
async def open_filled() -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a gateway with one finished run in a conversation."""
    async with open_door() as (client, _):
        await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})
        async with client.stream("GET", "/v1/runs/run_1/events") as events:
            async for _ in events.aiter_lines():
                pass
        yield client


async def send(client: httpx.AsyncClient, case: Case) -> Response:
    """Send a generated request as it is, and return the answer in Schemathesis' form."""
    wanted = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    body = wanted.body.encode() if isinstance(wanted.body, str) else wanted.body
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in wanted.headers.items()]
    request = client.build_request(wanted.method or "GET", wanted.url or "", headers=headers, content=body)  # type: ignore[arg-type]
    return Response.from_httpx(await client.send(request), verify=True)


def can_be_wrong(operation: Any) -> bool:
    """Return whether a request can contradict the document: any text is a good part of a path."""
    return bool(operation.query or operation.headers or operation.body)


KINDS = [(label, GenerationMode.POSITIVE) for label in OPERATIONS] + [
    (label, GenerationMode.NEGATIVE) for label, operation in OPERATIONS.items() if can_be_wrong(operation)
]


@pytest.fixture(autouse=True)
def draw_from_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the requests the same whatever other tests have imported: Hypothesis draws constants of loaded modules."""
    monkeypatch.setattr(providers, "_get_local_constants", providers.Constants)  # type: ignore[attr-defined]
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))


@pytest.mark.parametrize(("label", "mode"), KINDS, ids=lambda part: getattr(part, "value", part))
def test_every_answer_is_one_that_the_document_has(label: str, mode: GenerationMode) -> None:
    operation, answered = OPERATIONS[label], 0
    known = {name: KNOWN[name] for name in KNOWN if f"{{{name}}}" in operation.path}
    with asyncio.Runner() as runner:
        door = open_filled()
        client = runner.run(door.__aenter__())
        try:
            for fixed in (known, {}) if known else ({},):
                strategy = operation.as_strategy(mode, path_parameters=fixed or None)

                @ONCE
                @given(case=strategy)
                def check(case: Case) -> None:
                    nonlocal answered
                    case.validate_response(runner.run(send(client, case)), checks=CHECKS)
                    answered += 1

                check()
        finally:
            runner.run(door.__aexit__(None, None, None))
    assert answered, "nothing was sent"


async def test_a_boolean_is_no_number() -> None:
    async with open_door() as (client, _):
        answer = await client.post("/v1/runs", json={"question": "why?", "parent_turn": True})
        assert (answer.status_code, "parent_turn" in answer.text) == (400, True)

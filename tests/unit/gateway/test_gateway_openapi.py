"""The OpenAPI document against its golden file; ``FATHOM_UPDATE_GOLDEN=1`` rewrites it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx

import fathom
from tests.e2e.replay import ReplayHouse

GOLDEN = Path(__file__).parents[2] / "golden" / "openapi.json"
Door = tuple[httpx.AsyncClient, ReplayHouse]


async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/openapi.json")).json()
    found["info"]["version"] = "0"  # changes with every release, and says nothing about the routes
    return found


async def test_the_document_is_the_golden_one(door: Door) -> None:
    text = json.dumps(await document(door[0]), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("FATHOM_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "routes changed: check, then FATHOM_UPDATE_GOLDEN=1"


async def test_the_document_carries_the_version_of_the_package(door: Door) -> None:
    assert (await door[0].get("/openapi.json")).json()["info"]["version"] == fathom.__version__


async def test_every_body_has_a_schema(door: Door) -> None:
    found = await document(door[0])
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    bodies = [operation["requestBody"]["content"] for operation in operations if "requestBody" in operation]
    answers = [answer["content"] for one in operations for answer in one["responses"].values() if "content" in answer]
    assert bodies
    assert all(body.get("schema") for content in (*bodies, *answers) for body in content.values())


async def test_every_reference_resolves_and_every_route_says_how_it_fails(door: Door) -> None:
    found = await document(door[0])
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found)))
    assert names <= set(found["components"]["schemas"])
    assert "fathom.api.planner.v1.RunEvent" in names
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            # Below the paths of OpenAI's clients errors are of their form.
            kind = "application/json" if "openai" in operation.get("tags", ()) else "application/problem+json"
            assert operation["responses"]["default"]["content"].keys() == {kind}, f"{method} {path}"
            assert operation.get("description"), f"{method} {path}"


async def test_a_method_that_an_address_does_not_take_is_told_those_that_it_takes(door: Door) -> None:
    client = door[0]
    for path, operations in (await document(client))["paths"].items():
        taken = {method.upper() for method in operations}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - taken:
            answer = await client.request(method, re.sub(r"\{[^}]+\}", "one", path))
            assert answer.status_code == 405, f"{method} {path}"
            assert taken <= set(answer.headers["allow"].split(", ")), f"{method} {path}"
            assert method not in answer.headers["allow"].split(", "), f"{method} {path}"

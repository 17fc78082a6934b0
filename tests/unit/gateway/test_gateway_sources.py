"""Test what questions can draw on, over HTTP: every state, a service that is away, and who is told what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fathom.services.gateway.users import make_key
from tests.e2e.replay import ReplayHouse
from tests.e2e.settings.sources import NOON, REFUSED

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]


async def read(client: httpx.AsyncClient, **headers: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = await client.get("/v1/sources", headers=headers)
    assert found.status_code == 200
    return {(one["kind"], one["name"]): one for one in found.json()["sources"]}


async def test_every_source_says_how_it_stands(door: Door) -> None:
    found = await read(door[0])
    assert {key: one["state"] for key, one in found.items()} == {
        ("vendor", "akshare"): "answering",
        ("vendor", "edgar"): "failing",
        ("vendor", "fred"): "off",
        ("vendor", "worldbank"): "untried",
        ("vendor", "yfinance"): "paused",
        ("database", "desk"): "unwatched",
        ("tools", "acme"): "answering",
        ("tools", "desk"): "failing",
        ("bundled", "prices"): "ready",
        ("bundled", "macro"): "failing",
        ("documents", "notes"): "ready",
    }
    edgar = found["vendor", "edgar"]
    assert (edgar["answered"], edgar["failed"], edgar["tried"]) == (NOON + 60, NOON + 120, NOON + 120)
    assert edgar["operation"] == {
        "setting": "datafetch.connectors.enabled", "host": "", "credential": "set", "failure": REFUSED,
    }  # fmt: skip
    assert edgar["offers"] == [{"kind": "statements", "markets": ["us"]}]
    assert found["vendor", "fred"]["operation"]["credential"] == "missing"
    assert (found["tools", "acme"]["tools"], found["tools", "acme"]["missing_tools"]) == (["quote", "news"], ["news"])
    macro = found["bundled", "macro"]
    assert (macro["description"], macro["operation"]["failure"]) == ("US series", "the package fedstl is not here")


@pytest.mark.parametrize("gone", ["datafetch", "planner", "retrieval"])
async def test_a_service_that_is_away_is_named_and_the_rest_is_there(door: Door, gone: str) -> None:
    client, house = door
    house.dispatchers[gone].ready = False
    answer = (await client.get("/v1/sources")).json()
    assert answer["away"] == [{"service": gone, "problem": "NOT_READY"}]
    kinds = {one["kind"] for one in answer["sources"]}
    lost = {"datafetch": {"vendor", "database", "bundled"}, "planner": {"tools"}, "retrieval": {"documents"}}
    assert kinds == {"vendor", "database", "bundled", "tools", "documents"} - lost[gone]


@pytest.mark.parametrize(("scopes", "may"), [(("sources",), True), (("review",), False), ((), False)])
async def test_setup_and_failures_are_for_those_with_the_right(
    open_with: Opened, tmp_path: Path, scopes: tuple[str, ...], may: bool
) -> None:
    key, line = make_key("desk", "fund-7", scopes=scopes)
    (tmp_path / "keys.jsonl").write_text(f"{line}\n")
    async with open_with(api_keys_file=str(tmp_path / "keys.jsonl")) as (client, _):
        found = await read(client, authorization=f"Bearer {key}")
        assert all((one["operation"] is not None) is may for one in found.values())
        # How it stands helps whoever asks questions.
        assert found["vendor", "edgar"]["state"] == "failing"
        assert (REFUSED in str(found)) is may


async def test_a_source_is_tried_by_operators_alone(door: Door, open_with: Opened, tmp_path: Path) -> None:
    client, _ = door
    assert (await client.post("/v1/sources/vendor/akshare/probe")).json() == {
        "is_answering": True, "failure": "", "duration_ms": 420,
    }  # fmt: skip
    assert (await client.post("/v1/sources/vendor/edgar/probe")).json()["failure"] == REFUSED
    assert (await client.post("/v1/sources/tools/acme/probe")).json()["is_answering"]
    assert "No such file" in (await client.post("/v1/sources/tools/desk/probe")).json()["failure"]
    off = await client.post("/v1/sources/vendor/fred/probe")
    assert off.status_code >= 400
    assert "fred is off" in off.text
    assert (await client.post("/v1/sources/news/x/probe")).status_code in (400, 422)
    key, line = make_key("desk", "fund-7")
    (tmp_path / "keys.jsonl").write_text(f"{line}\n")
    async with open_with(api_keys_file=str(tmp_path / "keys.jsonl")) as (other, _house):
        refused = await other.post("/v1/sources/vendor/akshare/probe", headers={"authorization": f"Bearer {key}"})
        assert refused.status_code == 403


async def test_a_corpus_is_tried_by_a_search_past_what_is_held(door: Door) -> None:
    client, house = door
    for _ in range(2):
        assert (await client.post("/v1/sources/documents/notes/probe")).json()["is_answering"]
    assert len(set(house.retrieval.searched)) == 2
    for name, why in (("torn", "its file is cut off"), ("broken", "is away")):
        tried = (await client.post(f"/v1/sources/documents/{name}/probe")).json()
        assert (tried["is_answering"], why in tried["failure"]) == (False, True)
    unknown = await client.post("/v1/sources/documents/gone/probe")
    assert (unknown.status_code, unknown.json()["field"]) == (400, "corpus")

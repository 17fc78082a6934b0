"""Facts over HTTP: typed bodies, edits by version, what is refused."""

from __future__ import annotations

import httpx
import pytest

from fathom.api.memory.v1 import memory_pb2 as memory
from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]
EURO = {"kind": "currency", "value": "EUR", "text": "Amounts in euros."}


async def test_facts_are_added_listed_edited_and_deleted(door: Door) -> None:
    client, _ = door
    added = await client.post("/v1/facts", json=EURO)
    assert added.status_code == 201
    fact = added.json()["fact"]
    assert (fact["kind"], fact["value"], fact["version"]) == ("FACT_KIND_CURRENCY", "EUR", 1)
    place = f"/v1/facts/{fact['id']}"
    edited = await client.put(place, json={**EURO, "value": "GBP", "version": 1})
    assert edited.json()["fact"]["value"] == "GBP"
    assert [one["value"] for one in (await client.get("/v1/facts")).json()["facts"]] == ["GBP"]
    late = await client.put(place, json={**EURO, "value": "JPY", "version": 1})
    assert (late.status_code, late.json()["field"]) == (409, "fact.version")
    assert (await client.delete(place)).status_code == 204
    assert (await client.delete(place)).status_code == 404
    assert (await client.get("/v1/facts")).json()["facts"] == []


@pytest.mark.parametrize(
    ("field", "change"),
    [("kind", {"kind": "opinion"}), ("text", {"text": "\ud800"}), ("extra", {"extra": 1}), ("text", {"text": None})],
)
async def test_a_body_that_is_no_fact_names_its_field(door: Door, field: str, change: dict[str, object]) -> None:
    import json

    client, house = door
    body = json.dumps({**EURO, **change})
    refused = await client.post("/v1/facts", content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert house.memory.facts == {}


async def test_another_site_cannot_write_facts(door: Door) -> None:
    client, house = door
    refused = await client.post("/v1/facts", json=EURO, headers={"sec-fetch-site": "cross-site"})
    assert refused.status_code == 403
    assert house.memory.facts == {}


async def test_conclusions_are_listed_in_pages_and_deleted_once(door: Door) -> None:
    client, house = door
    house.memory.stances += [memory.Stance(id=f"s{number}", entity="AAA") for number in range(3)]
    first = (await client.get("/v1/stances?page_size=2")).json()
    more = {"page_size": "2", "page_token": first["next_page_token"]}
    rest = (await client.get("/v1/stances", params=more)).json()
    assert [one["id"] for one in (*first["stances"], *rest["stances"])] == ["s0", "s1", "s2"]
    assert rest["next_page_token"] == ""
    assert (await client.delete("/v1/stances/s1")).status_code == 204
    assert (await client.delete("/v1/stances/s1")).status_code == 404
    assert [one.id for one in house.memory.stances] == ["s0", "s2"]

"""Names of the catalogue over HTTP, as they are typed."""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]


@pytest.mark.parametrize(("typed", "ids"), [("aap", ["AAPL"]), ("阿", ["AAA"]), ("zzz", [])])
async def test_names_that_go_on_from_what_was_typed_are_listed(door: Door, typed: str, ids: list[str]) -> None:
    client, _ = door
    found = await client.get("/v1/entities", params={"query": typed})
    assert found.status_code == 200
    assert [one["id"] for one in found.json()["entities"]] == ids


@pytest.mark.parametrize("typed", ["", "x" * 101])
async def test_nothing_typed_and_too_much_is_refused_by_its_field(door: Door, typed: str) -> None:
    client, _ = door
    refused = await client.get("/v1/entities", params={"query": typed})
    assert (refused.status_code, refused.json()["field"]) == (400, "query")


async def test_frameworks_have_names_in_both_languages(door: Door) -> None:
    client, _ = door
    listed = (await client.get("/v1/frameworks")).json()["frameworks"]
    assert {("ESG", "环境、社会与治理"), ("Valuation", "估值")} == {(one["name"], one["name_zh"]) for one in listed}

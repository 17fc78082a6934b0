"""Test what can be asked about over HTTP: names of the catalogue as they are typed, frameworks, and drafts of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from fathom.services.datafetch.catalog.frameworks import load_frameworks, read_framework
from fathom.services.gateway.users import make_key
from tests.e2e.doubles.data import EXAMPLES
from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]
ESG = (EXAMPLES / "esg.yaml").read_text(encoding="utf-8")


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


async def test_the_text_of_a_framework_is_its_file(door: Door) -> None:
    client, house = door
    house.datafetch.library = load_frameworks(EXAMPLES)
    found = (await client.get("/v1/frameworks/esg/file")).json()
    assert found == {"topic": "esg", "name": "esg.yaml", "text": ESG, "is_bundled": False}
    unknown = await client.get("/v1/frameworks/egs/file")
    assert (unknown.status_code, unknown.json()["detail"].count("esg")) == (404, 1)


async def test_a_valid_draft_comes_back_as_the_tree_that_its_file_would_show(door: Door, tmp_path: Path) -> None:
    client, _ = door
    draft = ESG.replace("topic: esg", "topic: green").replace("name: Emissions", "name: Releases")
    checked = (await client.post("/v1/frameworks/check", json={"text": draft})).json()
    assert (checked["is_valid"], checked["problems"], checked["name"]) == (True, [], "green.yaml")
    (tmp_path / checked["name"]).write_text(draft, encoding="utf-8")
    nodes = read_framework(tmp_path / checked["name"]).nodes
    shown = checked["framework"]["nodes"]
    assert [one["name"] for one in shown if len(one["path"]) == 1] == [one.name for one in nodes]
    assert ["Environment", "Releases"] in [one["path"] for one in shown]


@pytest.mark.parametrize(
    ("before", "after", "place", "field", "line", "message"),
    [
        ("zh: 排放", "zh: emissions", "Environment / Emissions", "zh", 16, "needs a Chinese character"),
        ("about: ", "abuot: ", "", "about", 3, "required"),
        ("tool: search}", "tool: guess}", "Environment / Emissions / reduction targets", "tool", 20, "'data' or"),
        ("mcoilwtico", "mcoilwti", "Environment / Resources / fuel price exposure", "ids", 25, "near: mcoilwtico"),
        ("topic: esg", "topic: bond", "", "topic", 4, "bond.yaml"),
        ("name: Sustainability", "name: [", "", "", 7, "flow"),
        ("name: Sustainability", "name: *other", "", "", 5, "aliases"),
        ("name: Sustainability", "name: 2026-02-31", "", "", 0, "day"),
        ("name: Sustainability", "? [name]\n: x", "", "", 5, "a key is a list"),
        ("name: Sustainability", "name: " + "[" * 100_000, "", "", 5, "nested"),
        ("Sustainability", "汉" * 90_000, "", "", 0, "larger than 262,144 bytes"),
    ],
)
async def test_what_is_wrong_with_a_draft_is_named_by_place_field_and_line(
    door: Door, before: str, after: str, place: str, field: str, line: int, message: str
) -> None:
    client, house = door
    house.datafetch.library = load_frameworks()
    house.datafetch.indicators = {"mcoilwtico", "gasdesm"}
    assert before in ESG
    answer = await client.post("/v1/frameworks/check", json={"text": ESG.replace(before, after, 1)})
    assert answer.status_code == 200
    assert not answer.json()["is_valid"]
    first = answer.json()["problems"][0]
    assert (first["place"], first["field"], first["line"]) == (place, field, line)
    assert message in first["message"]
    assert len(first["message"]) < 500


async def test_a_draft_of_a_known_topic_takes_the_place_of_its_file_alone(door: Door) -> None:
    client, house = door
    house.datafetch.library = load_frameworks()
    text = (await client.get("/v1/frameworks/bond/file")).json()["text"]

    async def check(replaces: str) -> tuple[bool, list[str]]:
        found = (await client.post("/v1/frameworks/check", json={"text": text, "replaces": replaces})).json()
        return found["is_valid"], [one["field"] for one in found["problems"]]

    assert await check("bond") == (True, [])
    assert await check("fund") == (False, ["topic"])
    assert await check("") == (False, ["topic"])


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "text"),
        ({"text": ""}, 400, "text"),
        ({"text": " \n"}, 400, "text"),
        ({"text": "#" * 262_145}, 400, "text"),
        ({"text": "#" * 1_000_001}, 413, ""),
        ({"text": "a", "replaces": "x" * 41}, 400, "replaces"),
        ({"text": "a", "replaces": "none"}, 404, ""),
        ({"text": "a", "file": "/etc/passwd"}, 400, "file"),
    ],
)
async def test_a_request_that_is_no_draft_is_refused_by_its_field(
    door: Door, body: dict[str, str], status: int, field: str
) -> None:
    refused = await door[0].post("/v1/frameworks/check", json=body)
    assert (refused.status_code, refused.json().get("field", "")) == (status, field)


@pytest.mark.parametrize(("scopes", "may"), [((), False), (("review-items",), False), (("review",), True)])
async def test_files_and_checks_of_frameworks_are_for_reviewers(
    open_with: Opened, tmp_path: Path, scopes: tuple[str, ...], may: bool
) -> None:
    key, line = make_key("anne", "fund-7", scopes=scopes)
    (tmp_path / "keys.jsonl").write_text(f"{line}\n")
    async with open_with(api_keys_file=str(tmp_path / "keys.jsonl")) as (client, _):
        client.headers["authorization"] = f"Bearer {key}"
        # Wrong in all else, so that whoever may not is told nothing more.
        answers = await client.get("/v1/frameworks/X/file"), await client.post("/v1/frameworks/check", json={})
        assert [one.status_code for one in answers] == [400 if may else 403] * 2

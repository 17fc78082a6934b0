"""Reviews over HTTP, over the real queues: who may, what is shown when, and what is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fathom.services.gateway.users import NO_RIGHTS, Right, make_key, read_rights
from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]
PAIR: dict[str, Any] = {
    "key": "k1",
    "kind": "comparison",
    "question": "Why did it rise?",
    "texts": [{"owner": "ours", "text": "Because of rates."}, {"owner": "rival", "text": "By chance."}],
    "machine": {"verdict": "better", "grade": 2, "reason": "names a cause", "by": "judge"},
    "source": "answers.jsonl:1",
}


async def add(client: httpx.AsyncClient, **change: Any) -> dict[str, Any]:
    """Add an item and return it as its queue gives it."""
    item = {**PAIR, **change}
    added = await client.post("/v1/review/items", json={"items": [item]})
    assert (added.status_code, added.json()) == (201, {"added": 1, "known": 0})
    shown = await client.get(f"/v1/review/queues/{item['kind']}/next")
    found: dict[str, Any] = shown.json()
    return found


async def test_a_pair_is_graded_blind_rechecked_and_listed(door: Door) -> None:
    client, _ = door
    shown = await add(client)
    # Anywhere in the answer: a name that a page does not show can be read in the browser all the same.
    assert "ours" not in json.dumps(shown)
    assert (shown["machine"], shown["decision"], shown["key"]) == (None, None, "")
    assert [one["label"] for one in shown["texts"]] == ["A", "B"]
    # The worst grade for what the judge prefers, on whichever side it stands.
    worst = -2 if shown["texts"][0]["text"] == "Because of rates." else 2
    body = {"version": shown["version"], "decision": "grade", "grade": worst, "reason": "no source"}
    place = f"/v1/review/items/{shown['id']}/decision"
    decided = (await client.post(place, json=body)).json()
    assert {one["text"]: one["owner"] for one in decided["texts"]}["Because of rates."] == "ours"
    assert (decided["machine"]["grade"], decided["decision"]["grade"]) == (-worst, worst)
    queues = {one["kind"]: one for one in (await client.get("/v1/review/queues")).json()["queues"]}
    assert queues["comparison"] == {"kind": "comparison", "open": 0, "decided": 1}
    assert (queues["recheck"]["open"], len(queues)) == (1, 5)
    recheck = (await client.get("/v1/review/queues/recheck/next")).json()
    assert recheck["previous"]["reason"] == "no source"
    assert recheck["machine"]["reason"] == "names a cause"
    assert (await client.get("/v1/review/queues/comparison/next")).status_code == 204
    listed = (await client.get("/v1/review/decisions", params={"kind": "comparison"})).json()
    assert listed == {"decisions": [decided], "next_page_token": ""}
    undone = await client.delete(place)
    assert (undone.status_code, undone.json()["decision"], undone.json()["version"]) == (200, None, 3)
    assert (await client.get("/v1/review/queues/recheck/next")).status_code == 204


async def test_a_rewriting_is_edited_once(door: Door) -> None:
    client, _ = door
    text = "What is Apple's margin?"
    shown = await add(client, kind="rewriting", texts=[{"text": text}], machine={"verdict": "unsure"})
    assert (shown["machine"]["verdict"], shown["texts"][0]["label"]) == ("unsure", "rewriting")
    place, body = f"/v1/review/items/{shown['id']}/decision", {"version": 1, "decision": "edit", "text": text + " Now?"}
    decided = (await client.post(place, json=body)).json()["decision"]
    assert (decided["before"], decided["after"]) == (text, text + " Now?")
    late = await client.post(place, json={"version": 1, "decision": "accept"})
    assert (late.status_code, late.json()["field"]) == (409, "version")


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("decision", {"decision": "maybe"}),
        ("decision", {"decision": "accept", "grade": None}),
        ("grade", {"grade": None}),
        ("grade", {"grade": 3}),
        ("grade", {"grade": True}),
        ("text", {"text": "no edit"}),
        ("version", {"version": 0}),
        ("extra", {"extra": 1}),
        ("reason", {"reason": "x" * 10_001}),
    ],
)
async def test_a_decision_that_is_none_names_its_field(door: Door, field: str, change: dict[str, Any]) -> None:
    client, _ = door
    shown = await add(client)
    body = {"version": 1, "decision": "grade", "grade": 1, **change}
    refused = await client.post(f"/v1/review/items/{shown['id']}/decision", json=body)
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert (await client.get("/v1/review/queues")).json()["queues"][0]["open"] == 1


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("items.0.kind", {"kind": "recheck"}),
        ("items.0.key", {"key": ""}),
        ("items.0.machine.grade", {"machine": {"grade": 3}}),
        ("items.0.texts", {"texts": []}),
        ("items[0].texts", {"texts": [{"text": "one"}]}),
        ("items[0].question", {"question": " "}),
        ("items[0]", {"material": "x" * (300 << 10)}),
    ],
)
async def test_an_item_that_nobody_could_decide_on_names_its_field(
    door: Door, field: str, change: dict[str, Any]
) -> None:
    client, _ = door
    refused = await client.post("/v1/review/items", json={"items": [{**PAIR, **change}]})
    assert (refused.status_code, refused.json()["field"]) == (400, field)


async def test_a_key_of_another_item_and_what_is_not_there_are_refused(door: Door) -> None:
    client, _ = door
    await add(client)
    again = await client.post("/v1/review/items", json={"items": [PAIR]})
    assert again.json() == {"added": 0, "known": 1}
    other = await client.post("/v1/review/items", json={"items": [{**PAIR, "question": "Another?"}]})
    assert (other.status_code, other.json()["field"]) == (409, "items[0].key")
    nowhere = await client.post("/v1/review/items/review_1/decision", json={"version": 1, "decision": "accept"})
    assert nowhere.status_code == 404
    assert (await client.get("/v1/review/queues/comparison/next?after=review_1")).status_code == 404
    assert (await client.get("/v1/review/queues/nothing/next")).status_code == 400


@pytest.mark.parametrize(
    ("scopes", "can_review", "can_add"),
    [((), False, False), (("review",), True, False), (("review-items",), False, True)],
)
async def test_a_key_does_what_its_scopes_say(
    open_with: Opened, tmp_path: Path, scopes: tuple[str, ...], can_review: bool, can_add: bool
) -> None:
    key, line = make_key("anne", "fund-7", scopes=scopes)
    (tmp_path / "keys.jsonl").write_text(f"{line}\n")
    async with open_with(api_keys_file=str(tmp_path / "keys.jsonl")) as (client, _):
        client.headers["authorization"] = f"Bearer {key}"
        # Wrong in all else, so that whoever may not is told nothing more.
        reviewing = (
            await client.get("/v1/review/queues"),
            await client.get("/v1/review/queues/recheck/next?after=x"),
            await client.get("/v1/review/decisions?page_size=2000"),
            await client.post("/v1/review/items/review_1/decision", json={}),
            await client.delete("/v1/review/items/review_1/decision"),
        )
        adding = await client.post("/v1/review/items", json={})
        for answer in reviewing:
            assert (answer.status_code == 403) == (not can_review), answer.request.url
        assert (adding.status_code == 403) == (not can_add)
        refused = adding if can_review else reviewing[0]
        wanted = "review-items" if can_review else "review"
        assert refused.json()["detail"] == f'needs the scope "{wanted}"'
        # Everything else is as open to it as to others.
        assert (await client.get("/v1/runs")).status_code == 200


async def test_items_of_one_tenant_are_not_there_for_another(open_with: Opened, tmp_path: Path) -> None:
    both = ("review", "review-items")
    made = [make_key(name, tenant, scopes=both) for name, tenant in (("anne", "fund-7"), ("bert", "fund-8"))]
    (tmp_path / "keys.jsonl").write_text("".join(f"{line}\n" for _, line in made))
    anne, bert = ({"authorization": f"Bearer {key}"} for key, _ in made)
    async with open_with(api_keys_file=str(tmp_path / "keys.jsonl")) as (client, _):
        client.headers.update(anne)
        shown = await add(client)
        body = {"version": 1, "decision": "grade", "grade": 0}
        client.headers.update(bert)
        assert (await client.get("/v1/review/queues/comparison/next")).status_code == 204
        assert (await client.post(f"/v1/review/items/{shown['id']}/decision", json=body)).status_code == 404
        client.headers.update(anne)
        decided = (await client.post(f"/v1/review/items/{shown['id']}/decision", json=body)).json()
        assert decided["decision"]["reviewer"] == "key:anne"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (["review", "admin"], {Right.REVIEW}),
        ("openid review review-items", {Right.REVIEW, Right.REVIEW_ITEMS}),
        ("reviewer", NO_RIGHTS),
        (None, NO_RIGHTS),
        ({"review": True}, NO_RIGHTS),
        ([["review"], 7], NO_RIGHTS),
    ],
)
def test_roles_of_an_identity_token_are_rights_by_their_names(claim: object, expected: set[Right]) -> None:
    assert read_rights(claim) == expected

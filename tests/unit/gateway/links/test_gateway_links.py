"""Links that show an answer or a conversation: to whom, for how long, and nothing of it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.core.errors import FailedPrecondition, NotFound
from fathom.operations.links import LINKS
from fathom.services.gateway.links.store import Link, LinkStore, hash_token
from fathom.services.gateway.users import make_key
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.tenant import TenantStore
from tests.e2e.replay import ReplayHouse
from tests.e2e.script import HOSTILE
from tests.support.clock import Clock

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]
GONE = "此链接不存在或已失效。"


async def ask(client: httpx.AsyncClient, question: str = "AAA / BBB?", **more: Any) -> dict[str, str]:
    accepted: dict[str, str] = (await client.post("/v1/runs", json={"question": question, **more})).json()
    async with client.stream("GET", f"/v1/runs/{accepted['run_id']}/events") as events:
        async for _ in events.aiter_lines():
            pass
    return accepted


async def share(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    made = await client.post("/v1/links", json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


async def test_a_link_shows_the_answer_and_ends_when_it_is_withdrawn(door: Door) -> None:
    client, house = door
    run = await ask(client)
    made = await share(client, run_id=run["run_id"], language="zh")
    page = await client.get(made["path"])
    assert page.status_code == 200
    assert "AAA / BBB?" in page.text
    assert "参考来源" in page.text
    assert page.headers["x-robots-tag"] == "noindex, nofollow"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    listed = (await client.get("/v1/links")).json()["links"]
    assert [(link["id"], link["run_id"], link["title"]) for link in listed] == [
        (made["id"], run["run_id"], "AAA / BBB?")
    ]
    token = made["path"].rpartition("/")[2]
    stored = [key.key for key in await house.store.list("links/")]
    assert token not in json.dumps([listed, stored]), "the token is kept"
    assert (await client.delete(f"/v1/links/{made['id']}")).status_code == 204
    gone = await client.get(made["path"])
    assert (gone.status_code, GONE in gone.text) == (404, True)
    assert (await client.delete(f"/v1/links/{made['id']}")).status_code == 404
    assert (await client.get("/v1/links")).json()["links"] == []


async def test_a_conversation_is_shown_up_to_the_turn_at_which_it_was_shared(door: Door) -> None:
    client, _ = door
    conversation = (await ask(client, "First question?"))["conversation_id"]
    await ask(client, "Second question?", conversation_id=conversation)
    made = await share(client, conversation_id=conversation)
    await ask(client, "Third question?", conversation_id=conversation)
    text = (await client.get(made["path"])).text
    assert re.findall(r"<h1>(\w+ question\?)</h1>", text) == ["First question?", "Second question?"]
    # Each turn numbers its references anew, and each mark leads to those of its own turn.
    anchors = re.findall(r'id="([^"]*ref-\d+)"', text)
    assert len(anchors) == len(set(anchors))
    assert {target for target in re.findall(r'href="#([^"]+)"', text)} <= set(anchors)
    await client.delete(f"/v1/conversations/{conversation}")
    assert (await client.get(made["path"])).status_code == 404


def write_keys(folder: Path) -> tuple[Path, dict[str, dict[str, str]]]:
    """Return a file with keys of two tenants, and the headers of each."""
    made = {tenant: make_key(f"analyst of {tenant}", tenant, "") for tenant in ("one", "two")}
    file = folder / "keys.jsonl"
    file.write_text("".join(f"{line}\n" for _, line in made.values()))
    return file, {tenant: {"authorization": f"Bearer {key}"} for tenant, (key, _) in made.items()}


@pytest.mark.parametrize("public", [False, True])
async def test_another_tenant_and_a_stranger_are_refused_alike(open_with: Opened, tmp_path: Path, public: bool) -> None:
    file, headers = write_keys(tmp_path)
    async with open_with(api_keys_file=str(file), public_links=public) as (client, _):
        client.headers.update(headers["one"])
        made = await share(client, run_id=(await ask(client))["run_id"])
        assert (await client.get(made["path"])).status_code == 200
        client.headers.update(headers["two"])
        refused = await client.get(made["path"])
        unknown = await client.get("/shared/" + "x" * 43)
        assert refused.status_code == unknown.status_code == 404
        assert refused.text == unknown.text
        assert (await client.get("/v1/links")).json()["links"] == []
        assert (await client.delete(f"/v1/links/{made['id']}")).status_code == 404
        del client.headers["authorization"]
        assert (await client.get(made["path"])).status_code == (404 if public else 401)


async def test_a_link_for_anyone_needs_the_setting_and_opens_nothing_else(open_with: Opened, tmp_path: Path) -> None:
    file, headers = write_keys(tmp_path)
    async with open_with(api_keys_file=str(file), public_links=True) as (client, _):
        client.headers.update(headers["one"])
        run = await ask(client)
        made = await share(client, run_id=run["run_id"], audience="anyone")
        del client.headers["authorization"]
        assert "AAA / BBB?" in (await client.get(made["path"])).text
        for path in (f"/v1/runs/{run['run_id']}", "/v1/links", "/shared/../v1/runs"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post(made["path"])).status_code == 401
        client.headers.update(headers["two"])
        assert (await client.get(made["path"])).status_code == 200
        client.headers.update(headers["one"])
        await client.delete(f"/v1/links/{made['id']}")
        del client.headers["authorization"]
        assert (await client.get(made["path"])).status_code == 404
    async with open_with() as (client, _):
        run = await ask(client)
        refused = await client.post("/v1/links", json={"run_id": run["run_id"], "audience": "anyone"})
        assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED")


async def test_what_a_link_cannot_show_is_named(door: Door) -> None:
    client, house = door
    run = await ask(client)
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({}, 400, "run_id"),
        ({"run_id": run["run_id"], "conversation_id": run["conversation_id"]}, 400, "run_id"),
        ({"run_id": "none"}, 404, ""),
        ({"conversation_id": "none"}, 404, ""),
        ({"run_id": run["run_id"], "language": "fr"}, 400, "language"),
        ({"run_id": run["run_id"], "audience": "all"}, 400, "audience"),
        ({"run_id": run["run_id"], "lifetime_days": 0}, 400, "lifetime_days"),
    ]
    for body, status, field in wrong:
        refused = await client.post("/v1/links", json=body)
        assert (refused.status_code, refused.json().get("field", "")) == (status, field), body
    house.planner.script.answer = ""
    unanswered = await client.post("/v1/links", json={"run_id": (await ask(client))["run_id"]})
    assert (unanswered.status_code, unanswered.json()["field"]) == (409, "run_id")
    assert (await client.get("/shared/" + "%00" * 20)).status_code == 404


async def test_a_hostile_answer_is_text_on_a_shared_page(door: Door) -> None:
    client, house = door
    house.planner.script.answer = HOSTILE
    run = await ask(client, "<script>alert(1)</script><img src=x onerror=alert(2)>")
    page = await client.get((await share(client, conversation_id=run["conversation_id"]))["path"])
    assert page.status_code == 200
    assert not re.findall(r"<(?:img|svg|b)\b", page.text)
    assert "<script>alert" not in page.text
    assert "javascript:" not in "".join(re.findall(r'href="[^"]*"', page.text))
    assert "unsafe-inline" not in page.headers["content-security-policy"].split("script-src")[1]


async def test_each_use_of_a_link_is_in_the_audit_log(door: Door) -> None:
    client, house = door
    made = await share(client, run_id=(await ask(client))["run_id"])
    await client.get(made["path"])
    await client.get("/shared/nothing")
    await client.delete(f"/v1/links/{made['id']}")
    lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
    audited = [
        (line["rpc"], line["resource"], line["outcome"]) for line in lines if line.get("rpc", "").endswith(" link")
    ]
    assert audited == [
        ("create link", made["id"], "OK"),
        ("open link", made["id"], "OK"),
        ("open link", hash_token("nothing"), "NOT_FOUND"),
        ("withdraw link", made["id"], "OK"),
    ]
    assert made["path"].rpartition("/")[2] not in house.log.getvalue()


async def test_a_link_ends_by_itself_and_leaves_nothing() -> None:
    store, clock = MemoryStore(), Clock()
    links = LinkStore(TenantStore(store), store, clock=clock)
    ident = hash_token("token")
    about = Link(ident, "run_1", "", 0, "anyone", "en", "Title", "", clock.now, clock.now + 60)
    await links.add(about)
    assert (await links.list_links(10, ""))[0] == [about]
    clock.now += 61
    assert await links.list_links(10, "") == ([], "")
    assert await store.list("") == []


async def test_a_conversation_that_began_anew_under_its_id_is_not_shown(door: Door) -> None:
    client, house = door
    conversation = (await ask(client, "Old question?"))["conversation_id"]
    made = await share(client, conversation_id=conversation)
    old = dict(house.planner.runs)
    house.planner.runs.clear()
    await ask(client, "New secret question?", conversation_id=conversation)
    # Records of runs outlive their conversation.
    house.planner.runs.update({name: replace(run, request=planner.RunRequest()) for name, run in old.items()})
    page = await client.get(made["path"])
    assert (page.status_code, "secret" in page.text) == (404, False)


async def test_a_failure_on_the_way_is_not_told_to_whoever_looks(door: Door) -> None:
    client, house = door
    made = await share(client, run_id=(await ask(client))["run_id"])
    house.planner.gone = "10.0.0.7 refuses"
    page = await client.get(made["path"])
    assert (page.status_code, "10.0.0.7" in page.text, "暂时无法显示" in page.text) == (503, False, True)


async def test_the_links_of_a_tenant_are_bounded_and_those_that_have_ended_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fathom.services.gateway.links.store.MAX_LINKS", 3)
    store, clock = MemoryStore(), Clock()
    links = LinkStore(TenantStore(store), store, clock=clock)

    async def add(number: int, lifetime_s: float) -> None:
        await links.add(Link(hash_token(str(number)), "r", "", 0, "anyone", "en", "", "", 0, clock.now + lifetime_s))

    for number in range(3):
        await add(number, 60 if number else 30)
    with pytest.raises(FailedPrecondition, match="withdraw some"):
        await add(3, 60)
    clock.now += 31
    await add(3, 60)
    assert len(await store.keys("links/")) == len(await store.keys("public_links/")) == 3


async def test_a_link_of_another_version_hides_no_other_and_can_be_withdrawn() -> None:
    store, clock = MemoryStore(), Clock()
    links = LinkStore(TenantStore(store), store, clock=clock)
    for number in range(2):
        await links.add(Link(hash_token(str(number)), "run_1", "", 0, "anyone", "en", "", "", 0, clock.now + 60))
    known, foreign = hash_token("0"), hash_token("1")
    await store.put(LINKS + foreign, b'{"id": "x", "colour": "red"}')
    assert [link.id for link in (await links.list_links(10, ""))[0]] == [known]
    assert len(await store.keys(LINKS)) == 2, "it is another version's to read"
    await links.withdraw(foreign)
    with pytest.raises(NotFound):
        await links.find_owner(foreign)
    assert await store.keys(LINKS) == [LINKS + known]


async def test_links_are_listed_page_by_page() -> None:
    store, clock = MemoryStore(), Clock()
    links = LinkStore(TenantStore(store), store, clock=clock)
    for number in range(5):
        await links.add(Link(hash_token(str(number)), "run_1", "", 0, "tenant", "en", "", "", 0, clock.now + 60))
    first, token = await links.list_links(3, "")
    second, end = await links.list_links(3, token)
    assert (len(first), len(second), end) == (3, 2, "")
    assert len({link.id for link in [*first, *second]}) == 5

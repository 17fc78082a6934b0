"""Test who may come in, and what every answer carries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from fathom.services.gateway.config import Config
from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]


@pytest.mark.parametrize("path", ["/", "/static/icon.svg", "/v1/runs", "/v1/models", "/metrics", "/openapi.json"])
async def test_a_token_closes_every_route(open_with: Opened, path: str) -> None:
    async with open_with(token="secret") as (client, _):
        refused = await client.get(path)
        assert (refused.status_code, refused.json()["field"]) == (401, "authorization")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert (await client.get(path, headers={"authorization": "Bearer wrong"})).status_code == 401
        # The scheme's name is case-insensitive by RFC 9110, the token is not.
        assert (await client.get(path, headers={"authorization": "bearer secret"})).status_code == 200


async def test_health_needs_no_token(open_with: Opened) -> None:
    async with open_with(token="secret") as (client, _):
        assert (await client.get("/healthz/live")).status_code == 200
        # Probes come from the kubelet, by the pod's address and without a token.
        assert (await client.get("/healthz/ready", headers={"host": "10.0.0.7:8080"})).status_code == 200


async def test_a_browser_swaps_the_token_for_a_cookie(open_with: Opened) -> None:
    async with open_with(token="secret") as (client, _):
        assert (await client.get("/?access_token=wrong")).status_code == 401
        entry = await client.get("/?access_token=secret&embed=1")
        # Redirected without the token, which would otherwise stay in the browser's history; "embed" is kept.
        assert (entry.status_code, entry.headers["location"]) == (303, "/?embed=1")
        cookie = entry.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/v1/models")).status_code == 200
        client.cookies.clear()
        # With a query anybody could put a token into a link to the API.
        assert (await client.get("/v1/models?access_token=secret")).status_code == 401


async def test_only_known_host_names_are_answered(door: Door, open_with: Opened) -> None:
    # DNS rebinding: a foreign page resolves its own name to this server's address.
    refused = await door[0].get("/v1/models", headers={"host": "evil.example"})
    assert (refused.status_code, refused.json()["field"]) == (421, "host")
    for host in ("localhost:8080", "[::1]:8080", "127.0.0.1"):
        assert (await door[0].get("/v1/models", headers={"host": host})).status_code == 200
    async with open_with(allowed_hosts=["*"]) as (client, _):
        assert (await client.get("/v1/models", headers={"host": "gateway.example"})).status_code == 200


# What browsers say of where a request comes from; a program says nothing and may.
@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 202)])
async def test_other_sites_may_not_act(door: Door, site: str, status: int) -> None:
    answer = await door[0].post("/v1/runs", json={"question": "why?"}, headers={"sec-fetch-site": site})
    assert answer.status_code == status


@pytest.mark.parametrize("path", ["/", "/v1/models", "/v1/nothing", "/static/icon.svg"])
async def test_every_answer_keeps_the_page_to_itself(door: Door, path: str) -> None:
    headers = (await door[0].get(path)).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    # Falls back to "self", so that no inline script runs.
    assert "script-src" not in policy
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


async def test_only_the_embedded_page_may_be_framed(open_with: Opened) -> None:
    async with open_with(frame_ancestors="https://terminal.example") as (client, _):
        embedded = (await client.get("/?embed=1")).headers["content-security-policy"]
        whole = (await client.get("/")).headers["content-security-policy"]
    assert "frame-ancestors https://terminal.example" in embedded
    assert "frame-ancestors 'none'" in whole


async def test_a_defect_is_a_problem_without_its_cause(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    client, house = door

    async def raise_defect(request: object, call: object) -> None:
        raise RuntimeError("a secret that must not leave the server")

    # As deep as a handler can fail.
    monkeypatch.setattr("fathom.services.gateway.engine.to_json", raise_defect)
    answer = await client.get("/v1/models")
    assert (answer.status_code, answer.json()["reason"]) == (500, "INTERNAL")
    assert "secret" not in answer.text
    assert answer.json()["request_id"].startswith("req_")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert house.planner.asked == []


async def test_a_method_that_no_route_has_is_a_problem(door: Door) -> None:
    answer = await door[0].put("/v1/runs", json={})
    assert (answer.status_code, answer.json()["reason"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"]


@pytest.mark.parametrize("sent", ["/fathom", ""], ids=["passed on", "stripped by the proxy"])
async def test_all_is_served_below_a_prefix(open_with: Opened, sent: str) -> None:
    async with open_with(path_prefix="/fathom", frame_ancestors="https://terminal.example") as (client, _):
        started = await client.post(f"{sent}/v1/runs", json={"question": "why?", "request_id": "run_1"})
        assert (started.status_code, started.headers["location"]) == (202, "/fathom/v1/runs/run_1")
        assert (await client.get(f"{sent}/v1/runs/run_1/events")).status_code == 200
        made = (await client.post(f"{sent}/v1/links", json={"run_id": "run_1"})).json()["path"]
        assert made.startswith("/fathom/shared/")
        assert (await client.get(sent + made.removeprefix("/fathom"))).status_code == 200
        for path in ("/static/icon.svg", "/static/training/report.js", "/trainings", "/openapi.json", "/healthz/live"):
            assert (await client.get(f"{sent}{path}")).status_code == 200, path
        assert (await client.get(f"{sent}/openapi.json")).json()["servers"] == [{"url": "/fathom"}]
        refused = await client.post(f"{sent}/v1/chat/completions", json={})
        assert refused.json()["error"]["param"] == "messages"
        embedded = (await client.get(f"{sent}/?embed=1")).headers["content-security-policy"]
        assert "frame-ancestors https://terminal.example" in embedded
        table = await client.post(f"{sent}/v1/tables?name=big.csv", content=b"x" * 1_500_000)
        assert table.status_code == 200, "the limit of uploads"


async def test_the_page_below_a_prefix_is_a_folder_with_a_cookie_of_its_own(open_with: Opened) -> None:
    async with open_with(path_prefix="/fathom", token="secret") as (client, _):
        entry = await client.get("/fathom/?access_token=secret&embed=1")
        assert (entry.status_code, entry.headers["location"]) == (303, "/fathom/?embed=1")
        assert "path=/fathom/" in entry.headers["set-cookie"].lower()
        folder = await client.get("/fathom?embed=1")
        assert (folder.status_code, folder.headers["location"]) == (308, "/fathom/?embed=1")
        client.cookies.clear()
        for path in ("/fathom/", "/fathom/v1/runs", "/v1/runs", "/fathomless/v1/runs"):
            assert (await client.get(path)).status_code == 401, path


@pytest.mark.parametrize("prefix", ["fathom", "/fathom/", "//evil.example", "/a b", "/a?b"])
def test_a_prefix_that_is_no_path_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="path_prefix"):
        Config(path_prefix=prefix)

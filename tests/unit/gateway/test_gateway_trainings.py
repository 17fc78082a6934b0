"""Trainings over HTTP: to whom they are shown, how much, and what is sent when nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from fathom.domain.training_report.about import About, about_key, piece_key, sample_key
from fathom.services.gateway.users import make_key
from fathom.transport.store import ObjectStore
from tests.e2e.replay import ReplayHouse

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]
ROW = {"prompt": {"text": ["a"]}, "response": {"text": ["b"]}}


async def put_training(store: ObjectStore, name: str, steps: int = 3, folder: str = "") -> None:
    """Write what a training of so many steps has written; ``folder`` is that of a tenant."""
    lines = [json.dumps({"step": step, "metrics": {"acc": step / 10}}) + "\n" for step in range(1, steps + 1)]
    await store.put(folder + piece_key(name, 0), "".join(lines).encode())
    await store.put(folder + sample_key(name, 2), json.dumps({"step": 2, "rows": [ROW]}).encode())
    about = About(name, "grpo", "tiny", lines=steps, step=steps, updated=float(steps), settings={"trainer.seed": 7})
    await store.put(folder + about_key(name), about.to_json())


async def test_trainings_are_listed_and_read(door: Door) -> None:
    client, house = door
    assert (await client.get("/v1/trainings")).json() == {"trainings": [], "next_page_token": ""}
    for name in ("one", "two"):
        await put_training(house.store, name)
    page = (await client.get("/v1/trainings", params={"page_size": 1})).json()
    assert [one["name"] for one in page["trainings"]] == ["one"]
    rest = (await client.get("/v1/trainings", params={"page_token": page["next_page_token"]})).json()
    assert [(one["name"], one["step"]) for one in rest["trainings"]] == [("two", 3)]
    found = (await client.get("/v1/trainings/one")).json()
    assert found["curves"]["series"]["acc"]["y"] == [0.1, 0.2, 0.3]
    assert (found["samples"], found["about"]["settings"]) == ([2], {"trainer.seed": 7})
    assert (await client.get("/v1/trainings/one/samples/2")).json()["rows"] == [ROW]


async def test_a_training_that_has_not_gone_on_is_not_sent_again(door: Door) -> None:
    client, house = door
    await put_training(house.store, "one")
    first = await client.get("/v1/trainings/one")
    tag = {"if-none-match": first.headers["etag"]}
    assert (await client.get("/v1/trainings/one", headers=tag)).status_code == 304
    # Fewer points are another answer.
    assert (await client.get("/v1/trainings/one", params={"points": 16}, headers=tag)).status_code == 200
    await put_training(house.store, "one", 4)
    later = await client.get("/v1/trainings/one", headers=tag)
    assert later.json()["curves"]["series"]["acc"]["y"][-1] == 0.4


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/v1/trainings/none", 404, None),
        ("/v1/trainings/..%2Ftenants", 404, None),
        ("/v1/trainings/one/samples/3", 404, None),
        ("/v1/trainings/one/samples/x", 400, "step"),
        ("/v1/trainings/one?points=1000000", 400, "points"),
        ("/v1/trainings?page_token=x", 400, "page_token"),
        ("/v1/trainings?page_size=-1", 400, "page_size"),
    ],
)
async def test_what_is_not_there_is_a_problem(door: Door, path: str, status: int, field: str | None) -> None:
    client, house = door
    await put_training(house.store, "one")
    answer = await client.get(path)
    assert (answer.status_code, answer.json().get("field")) == (status, field)


async def test_a_key_shows_the_trainings_of_its_tenant_alone(open_with: Opened, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key, line = make_key("ann", "fund-7")
    keys.write_text(f"{line}\n")
    async with open_with(token="operator", api_keys_file=str(keys)) as (client, house):
        await put_training(house.store, "ours")
        await put_training(house.store, "theirs", folder="tenants/fund-7/")

        async def names(token: str) -> list[str]:
            answer = await client.get("/v1/trainings", headers={"authorization": f"Bearer {token}"})
            return [one["name"] for one in answer.json()["trainings"]]

        assert (await names(key), await names("operator")) == (["theirs"], ["ours"])
        for path in ("/v1/trainings/ours", "/v1/trainings/ours/samples/2"):
            # A header does not change whose key it is.
            headers = {"authorization": f"Bearer {key}", "x-fathom-tenant": "default"}
            assert (await client.get(path, headers=headers)).status_code == 404
        for path in ("/trainings", "/v1/trainings", "/v1/trainings/ours", "/static/training/report.js"):
            assert (await client.get(path)).status_code == 401


async def test_the_page_loads_its_own_files(door: Door) -> None:
    client, _ = door
    page = (await client.get("/trainings")).text
    for path in ("/static/training/report.js", "/static/training/report.css", "/static/plotly.min.js"):
        assert f'"{path}"' in page
        assert (await client.get(path)).status_code == 200
    assert (await client.get("/static/icon.svg")).status_code == 200

"""Trainings are read from a store while they write to it, and each tenant sees its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import CorruptData, NotFound
from fathom.domain.training_report.about import LINES, About, about_key, piece_key
from fathom.domain.training_report.curves import Curves
from fathom.domain.training_report.page import Training, render_page
from fathom.domain.training_report.reader import TrainingReader
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.tenant import TenantStore


def make_line(step: int) -> str:
    return json.dumps({"step": step, "time": 1.0, "metrics": {"a": float(step)}}) + "\n"


async def put_training(store: ObjectStore, name: str, lines: int, start_id: str = "start_1") -> About:
    """Write what a training has written after so many steps."""
    for number in range(-(-lines // LINES)):
        steps = range(number * LINES + 1, min(lines, (number + 1) * LINES) + 1)
        await store.put(piece_key(name, number), "".join(make_line(step) for step in steps).encode())
    about = About(name, "grpo", "tiny", lines=lines, step=lines, start_id=start_id, updated=float(lines))
    await store.put(about_key(name), about.to_json())
    return about


class CountedStore:
    """A store that notes which objects are read."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.read: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    async def get(self, key: str, sha256: str | None = None) -> bytes:
        self.read.append(key)
        return await self.store.get(key, sha256)


@pytest.mark.parametrize("kind", ["memory", "folder"])
async def test_only_what_was_added_is_read_again(kind: str, tmp_path: Path) -> None:
    store = CountedStore(open_store("memory://" if kind == "memory" else tmp_path.as_uri()))
    reader = TrainingReader(store)  # type: ignore[arg-type]
    curves = await reader.read_curves(await put_training(store.store, "run", 450))
    assert list(curves.series["a"].steps) == list(range(1, 451))
    store.read.clear()
    grown = await reader.read_curves(await put_training(store.store, "run", 470))
    assert store.read == [piece_key("run", 2)]
    assert (grown.last, curves.last) == (470, 450), "who reads the curves of before is not disturbed"
    # Begun anew by another process: nothing of before is taken.
    store.read.clear()
    fresh = await reader.read_curves(await put_training(store.store, "run", 3, "start_2"))
    assert (store.read, fresh.last) == ([piece_key("run", 0)], 3)


async def test_lines_that_are_newer_than_the_description_are_not_read_twice() -> None:
    store = open_store("memory://")
    reader, about = TrainingReader(store), await put_training(store, "run", 10)
    await store.put(piece_key("run", 0), "".join(make_line(step) for step in range(1, 13)).encode())
    assert (await reader.read_curves(about)).last == 12
    later = await put_training(store, "run", 12)
    assert list((await reader.read_curves(later)).series["a"].steps) == list(range(1, 13))


async def test_trainings_are_listed_by_pages_and_one_that_is_broken_hides_no_other() -> None:
    store = open_store("memory://")
    for name in ("b", "a", "c"):
        await put_training(store, name, 1)
    await store.put(about_key("broken"), b"[]")
    reader = TrainingReader(store)
    page, token = await reader.list_trainings(page_size=2)
    assert [one.name for one in page] == ["a", "b"]
    rest, end = await reader.list_trainings(page_size=2, page_token=token)
    assert ([one.name for one in rest], end) == (["c"], "")
    with pytest.raises(CorruptData):
        await reader.describe("broken")


@pytest.mark.parametrize("name", ["nothing", "../a", "a/b", "", "tenants"])
async def test_an_unknown_name_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match="training"):
        await TrainingReader(open_store("memory://")).describe(name)


async def test_a_step_without_samples_names_those_that_have_some() -> None:
    store = open_store("memory://")
    await put_training(store, "run", 1)
    await store.put("training/run/samples/00000004.json", b'{"rows": []}')
    reader = TrainingReader(store)
    assert await reader.read_samples("run", 4) == {"rows": []}
    with pytest.raises(NotFound) as missing:
        await reader.read_samples("run", 5)
    assert "4" in missing.value.message


async def test_a_tenant_sees_its_own_trainings_and_no_other() -> None:
    store = open_store("memory://")
    view = TenantStore(store)
    reader = TrainingReader(view)
    await put_training(store, "operators", 3)
    with calling(Call.new(tenant="fund-7")):
        await put_training(view, "theirs", 5)
        assert [one.name for one in (await reader.list_trainings())[0]] == ["theirs"]
        with pytest.raises(NotFound):
            await reader.describe("operators")
        own = await put_training(view, "same", 5)
        assert (await reader.read_curves(own)).last == 5
    # The same name of another tenant is another training, also where it was read before.
    other = await put_training(store, "same", 2)
    assert (await reader.read_curves(other)).last == 2
    assert [one.name for one in (await reader.list_trainings())[0]] == ["operators", "same"]


async def test_a_page_of_many_long_trainings_with_large_samples_stays_small() -> None:
    """Ten thousand steps of a hundred metrics, twice, with 64 samples of 450 KB each."""
    store = open_store("memory://")
    reader = TrainingReader(store)
    curves = await reader.read_curves(await put_training(store, "run", 400))
    for step in range(401, 10_001):
        curves.add(step, {f"metric/{number}": step / (number + 1) for number in range(100)})
    text = ["token"] * 20_000
    row = {"prompt": {"text": text}, "response": {"text": text}}
    sample = json.dumps({"rows": [row]}).encode()
    trainings = [Training(About(name), curves, dict.fromkeys(range(1, 65), sample)) for name in ("a", "b")]
    page = render_page("many", trainings, written=0.0)
    # Plotly's own script is 4.6 MB of it.
    assert len(page) < 22_000_000
    data = json.loads(page.split('id="report-data">')[1].split("</script>")[0])
    for one in data["trainings"]:
        assert 0 < len(one["samples"]) < 64
        assert one["samples"][-1] == 64
        assert one["samples_left_out"] == 64 - len(one["samples"])
        assert all(len(series["y"]) <= 400 for series in one["curves"]["series"].values())


def test_no_text_of_a_model_ends_the_element_that_holds_it() -> None:
    evil = '</script><script>alert("x")</script>'
    sample = json.dumps({"rows": [{"prompt": {"text": [evil]}}]}).encode()
    page = render_page(evil, [Training(About("run", notes=(evil,)), Curves(), {1: sample})], 0.0)
    assert "<script>alert" not in page

"""Erasure of runs: no object of theirs stays, whatever made it, those that they delegated included; others' stay."""

from __future__ import annotations

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.call import Call, calling
from fathom.core.errors import Conflict
from fathom.operations.erasure import erase_runs
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.repository import Header, RunRepository
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.tenant import TenantStore

SECRET = "the basket of Anne"


async def write_run(store: ObjectStore, run: str, said: str, parent: str = "") -> None:
    """Leave what a run leaves: header, index, readings, recalled turns, trajectory, and a figure."""
    record = RunRepository(store)
    header = Header(run, said, "conv_1", "PROTOCOL_RESEARCH", "", 1_767_225_600.0, "", parent)
    await record.create(header)
    await record.put_entry(header, Entry(0, 1))
    await record.put_reading(run, {"question": said})
    await record.put_recalled(run, {"messages": [["user", said]], "has_memory": True})
    await record.put_given(run, [pb.Material(number=1, variable=said)])
    await record.put_stop(run, 0)
    made = pb.Trajectory(run_id=run)
    made.answer.markdown = said
    await record.put_trajectory(made, epoch=3)
    await store.put(f"figures/{run}/fig_1.json", said.encode())
    await store.put(f"results/{run}/aa.arrow", said.encode())


async def read_all(store: ObjectStore) -> bytes:
    return b"\n".join([key.encode() + await store.get(key) for key in await store.keys("")])


async def test_nothing_that_a_run_said_is_left(report: list[str]) -> None:
    whole = open_store("memory://")
    store = TenantStore(whole)
    with calling(Call.new(tenant="fund-7")):
        await write_run(store, "run_1", SECRET)
        await write_run(store, "run_1-0-0", SECRET, parent="run_1")
        await write_run(store, "run_10", "of Bert")
    with calling(Call.new(tenant="fund-8")):
        await write_run(store, "run_1", "of another tenant")
    with calling(Call.new(tenant="fund-7")):
        done = await erase_runs(store, ["run_1", "run_gone"], report.append)
        left = await read_all(store)
        again = await erase_runs(store, ["run_1"], report.append)
    assert (done.runs, done.objects > 16) == (3, True)
    assert SECRET.encode() not in left
    assert b"run_1/" not in left
    assert b"of Bert" in left
    assert again.objects == 0
    assert b"of another tenant" in await read_all(whole)
    assert "none left" in report[0]


async def test_a_run_that_writes_on_is_named(report: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://")
    await write_run(store, "run_1", SECRET)

    async def keep(key: str) -> None:
        """Delete nothing, as if the run had written it again."""

    monkeypatch.setattr(store, "delete", keep)
    with pytest.raises(Conflict, match="stop the runs first"):
        await erase_runs(store, ["run_1"], report.append)


@pytest.fixture
def report() -> list[str]:
    return []

"""A run of a model that policy does not know is refused before anything of it is recorded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Lane
from fathom.core.errors import NotFound, NotReady
from fathom.services.planner.runs.branching import branch_run
from tests.unit.planner.house import House, echo, finish

ROLES = {"planner": "s"}


def make_house() -> House:
    """Return a planner whose policy has the model "s", which plays the role "planner"."""
    house = House(echo("a"), finish("It is so."))

    async def get_model(request: policy.GetModelRequest, timeout_s: float = 1.0) -> policy.GetModelResponse:
        name = ROLES.get(request.model, request.model)
        if name != "s":
            raise NotFound("model", name, ["s"])
        return policy.GetModelResponse(model=policy.Model(name=name))

    house.clients.__dict__["policy"] = SimpleNamespace(get_model=get_model)
    return house


async def list_runs(house: House) -> list[str]:
    return [run.run_id for run in (await house.runs.list(100, "")).runs]


async def test_an_unknown_model_is_refused_by_name_and_no_run_is_recorded() -> None:
    house = make_house()
    with pytest.raises(NotFound, match="no model 'none'; nearest: s") as refused:
        await house.ask(model="none")
    assert refused.value.metadata["field"] == "model"
    assert await list_runs(house) == []
    for run_id, model in (("run_1", "s"), ("run_2", "planner")):
        await house.ask(run_id, model=model)
        assert (await house.record.get_header(run_id)).model == "s"


async def test_a_branch_is_played_by_a_model_that_exists_and_records_it_by_name() -> None:
    house = make_house()
    async with house.working():
        await house.ask()
        await house.events()
    branch = pb.BranchRunRequest(request_id="run_2", run_id="run_1", steps=1, model="none")
    with pytest.raises(NotFound, match="no model 'none'"):
        await branch_run(house.runs, branch, Lane.INTERACTIVE)
    assert await list_runs(house) == ["run_1"]
    branch.model = "planner"
    await branch_run(house.runs, branch, Lane.INTERACTIVE)
    assert (await house.record.get_header("run_2")).model == "s"


async def test_a_run_begins_while_policy_cannot_be_asked() -> None:
    house = make_house()

    async def fail(request: policy.GetModelRequest, timeout_s: float = 1.0) -> policy.GetModelResponse:
        raise NotReady("policy is loading")

    house.clients.__dict__["policy"] = SimpleNamespace(get_model=fail)
    await house.ask()
    assert await list_runs(house) == ["run_1"]

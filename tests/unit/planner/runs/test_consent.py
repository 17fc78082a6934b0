"""Consent to training: stated with a run, of a run, or of all runs; noted in what the run leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import InvalidField, NotFound, PermissionDenied
from fathom.services.planner.runs.branching import branch_run
from fathom.services.planner.runs.consent import get_consent, note_asker, set_consent
from tests.unit.planner.house import House, echo, finish

GIVEN, REFUSED, UNSPECIFIED = trajectory.CONSENT_GIVEN, trajectory.CONSENT_REFUSED, trajectory.CONSENT_UNSPECIFIED
ANN, BOB = (replace(Call.new(), principal=f"user:{name}") for name in ("ann", "bob"))


async def state(house: House, call: Call, consent: trajectory.Consent, run_id: str = "") -> None:
    await set_consent(house.record, pb.SetConsentRequest(run_id=run_id, consent=consent), call)


async def holds(house: House, call: Call, run_id: str = "") -> tuple[trajectory.Consent, bool]:
    found = await get_consent(house.record, pb.GetConsentRequest(run_id=run_id), call)
    return found.consent, found.of_run


async def test_a_run_carries_who_asked_it_and_what_was_stated() -> None:
    house = House(echo("a"), finish("It is so."))
    with calling(ANN):
        await house.ask(consent=GIVEN)
        assert await holds(house, ANN, "run_1") == (GIVEN, True)
    async with house.working():
        await house.events()
    found = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory
    assert (found.principal, found.consent, found.origin_run_id) == ("user:ann", GIVEN, "")


async def test_statements_of_all_runs_and_of_one() -> None:
    house = House(finish("It is so."))
    with calling(ANN):
        await house.ask()
    assert await holds(house, ANN, "run_1") == (UNSPECIFIED, False), "nobody has said anything"
    await state(house, ANN, GIVEN)
    assert await holds(house, ANN, "run_1") == (GIVEN, False)
    assert await holds(house, BOB) == (UNSPECIFIED, False), "another one's runs"
    await state(house, BOB, REFUSED, "run_1")
    assert await holds(house, ANN, "run_1") == (REFUSED, True)
    assert await holds(house, ANN) == (GIVEN, False)
    with pytest.raises(PermissionDenied, match="somebody else"):
        await state(house, BOB, GIVEN, "run_1")
    with pytest.raises(InvalidField, match="consent"):
        await state(house, ANN, UNSPECIFIED)
    with pytest.raises(NotFound, match="run_9"):
        await state(house, ANN, GIVEN, "run_9")


async def test_parts_and_branches_belong_to_the_run_that_was_asked() -> None:
    house = House(echo("a"), finish("It is so."), finish("It is otherwise."))
    with calling(ANN):
        await house.ask()
    async with house.working():
        await house.events()
        with calling(BOB):
            await branch_run(
                house.runs, pb.BranchRunRequest(request_id="run_2", run_id="run_1", steps=1), Lane.INTERACTIVE
            )
        await state(house, ANN, GIVEN, "run_1")
        assert await holds(house, BOB, "run_2") == (GIVEN, True)
    header = await house.record.get_header("run_2")
    message = trajectory.Trajectory(run_id="run_2")
    await note_asker(house.record, header, message)
    assert (message.principal, message.origin_run_id) == ("user:ann", "run_1")
    # A part of a run whose header is gone is nobody's, and not to be learned from.
    await note_asker(house.record, replace(header, parent_run_id="run_gone"), message)
    assert message.consent == REFUSED

"""Production's runs are graded once each, whoever restarts, however many watch, and whatever is away for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.core.errors import DependencyFailed, Internal, InvalidField, NotReady
from fathom.operations.monitoring import metrics
from fathom.operations.monitoring.config import Config
from fathom.operations.monitoring.ledger import Claim, Held, Ledger
from fathom.transport.bus.streams import GRADED
from tests.support.clock import loop_time, pass_time, simulate_time
from tests.support.waiting import eventually
from tests.unit.monitoring.production import Production, at_work


async def test_each_run_is_graded_once_also_after_a_restart() -> None:
    house = Production()
    first = house.watch(graders=("tool_steps", "code"))
    await house.ends("run_1")
    async with at_work(first):
        await house.ends("run_2", model="smollm2")
        await eventually(lambda: first.grades(model="smollm2") == 1)
        assert first.watch.ready
    assert (first.grades(), first.read_count("fathom_grading_runs_total", model="rules")) == (1, 1)
    below, above = (
        first.read_count("fathom_grading_value_bucket", grader="tool_steps", model="smollm2", le=le)
        for le in ("0.4", "0.5")
    )
    assert (below, above) == (0, 1), "the value is 0.5"
    second = house.watch(graders=("tool_steps", "code"))
    await house.ends("run_3")
    async with at_work(second):
        await eventually(lambda: second.grades() == 1)
    asked = {answer: count for (grader, answer), count in house.reward.asked.items() if grader == "tool_steps"}
    assert asked == {"run_1": 1, "run_2": 1, "run_3": 1}


async def test_what_is_read_again_is_found_settled() -> None:
    """The position may be behind: the last one was not written, or another copy's run is still open."""
    house = Production()
    copies = [house.watch(), house.watch()]
    await house.ends("run_1")
    async with at_work(copies[0]):
        await eventually(lambda: copies[0].grades() == 1)
    keys = house.bus.bucket(GRADED)
    await keys.delete("read.position")
    await house.ends("run_2")
    async with at_work(copies[1]):
        await eventually(lambda: copies[1].grades() == 1)
    assert house.reward.asked["tool_steps", "run_1"] == 1
    assert int((await keys.get("read.position")).value) == 4  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored"])
async def test_a_grade_counts_once_when_the_confirmation_of_settling_is_lost(
    is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may die between storing and answering, or before it has stored."""
    house = Production()
    lost: list[str] = []
    settle = Ledger.settle

    async def lose_the_answer(ledger: Ledger, claim: Claim) -> None:
        if claim.key in lost:
            return await settle(ledger, claim)
        lost.append(claim.key)
        if is_stored:
            await settle(ledger, claim)
        raise NotReady("the server is away")

    monkeypatch.setattr(Ledger, "settle", lose_the_answer)
    copies = [house.watch(look_s=0.01), house.watch(look_s=0.01)]
    async with at_work(*copies):
        for number in range(10):
            await house.ends(f"run_{number}")
        await eventually(lambda: len(lost) == 10 and not any(copy.watch.behind_s() for copy in copies))
    assert sum(copy.grades() for copy in copies) == 10
    assert set(house.reward.asked.values()) == {1}


async def test_two_copies_grade_each_run_once_between_them() -> None:
    house = Production()
    copies = [house.watch(), house.watch()]
    async with at_work(*copies):
        for number in range(40):
            await house.ends(f"run_{number}")
        await eventually(lambda: sum(copy.grades() for copy in copies) >= 40)
    assert sum(copy.grades() for copy in copies) == 40
    assert set(house.reward.asked.values()) == {1}


@simulate_time
async def test_what_a_lost_copy_held_is_graded_when_its_lease_is_over() -> None:
    house = Production(clock=loop_time)
    await house.ends("run_1")
    lost = await Ledger(house.bus.bucket(GRADED), lease_s=0.2, clock=loop_time).claim("run_1", 0)
    assert isinstance(lost, Claim)
    copy = house.watch()
    async with at_work(copy):
        await pass_time(0.05)
        assert copy.grades() == 0
        assert copy.watch.behind_s() > 0
        await house.ends("run_2")  # goes before it
        await eventually(lambda: house.reward.asked["tool_steps", "run_2"] == 1)
        await eventually(lambda: copy.grades() == 2)
    assert copy.watch.behind_s() == 0
    assert await Ledger(house.bus.bucket(GRADED), 1.0).position() == 4


@simulate_time
async def test_runs_wait_while_reward_or_planner_are_away_and_are_graded_afterwards() -> None:
    house = Production(clock=loop_time)
    copy = house.watch(attempts=2)
    house.reward.away = True
    await house.ends("run_1")
    async with at_work(copy):
        await pass_time(0.1)
        assert not copy.watch.ready
        house.reward.away = False
        await eventually(lambda: copy.grades() == 1)
        for peer in (house.reward, house.planner):
            peer.away = True
            await house.ends(f"run_{type(peer).__name__}")
            await pass_time(0.2)  # far more failures than attempts
            assert copy.watch.behind_s() > 0.1
            assert copy.watch.alive()
            peer.away = False
            await eventually(lambda: copy.watch.behind_s() == 0)
    assert copy.grades() == 3
    assert copy.lacking("", "UNAVAILABLE") == copy.lacking("tool_steps", "UNAVAILABLE") == 0


async def test_a_run_that_fails_while_the_services_answer_is_given_up_and_counted() -> None:
    house = Production()
    copy = house.watch(graders=("tool_steps", "code", "em"), attempts=3)
    house.reward.refuses["tool_steps"] = DependencyFailed("sandbox", "is gone")
    await house.ends("run_1")
    async with at_work(copy):
        await eventually(lambda: copy.lacking("tool_steps", "UNAVAILABLE") == 1)
        house.reward.refuses = {"tool_steps": Internal("a defect")}
        await house.ends("run_2")
        await eventually(lambda: copy.lacking("tool_steps", "INTERNAL") == 1)
        house.reward.refuses, house.reward.fails = {}, {"tool_steps"}
        await house.ends("run_3")
        await eventually(lambda: copy.lacking("tool_steps", "failed") == 1)
        await house.ends("run_4", known=False)
        await eventually(lambda: copy.lacking("", "NOT_FOUND") == 1)
    assert house.reward.asked["tool_steps", "run_1"] == 3, "tried as often as said"
    assert house.reward.asked["tool_steps", "run_2"] == 1, "what would fail again is not tried again"
    assert copy.grades() == 0, "a failure is no grade of 0"
    assert copy.lacking("em", "no_reference") == 3


async def test_references_and_the_share_decide_what_is_graded(tmp_path: Path) -> None:
    file = tmp_path / "references.jsonl"
    file.write_text('{"question": "q", "references": ["a"]}\n')
    house = Production()
    copy = house.watch(graders=("em",), references=file, share=0.5, seed=7)
    drawn = [f"run_{number}" for number in range(30) if copy.watch._draw.takes(f"run_{number}")]
    assert 5 < len(drawn) < 25
    async with at_work(copy):
        for number in range(30):
            await house.ends(f"run_{number}")
        await eventually(lambda: copy.grades("em") == len(drawn) and copy.watch.behind_s() == 0)
    assert sorted(house.reward.asked) == sorted(("em", run_id) for run_id in drawn)


async def test_only_what_users_asked_for_is_graded_and_a_resumed_run_by_its_last_end() -> None:
    house = Production()
    copy = house.watch()
    await house.ends("run_training", lane=common.LANE_TRAINING)
    await house.ends("run_child")
    house.planner.runs["run_child"].trajectory.parent_run_id = "run_0"
    await house.ends("run_1")
    await house.ends("run_1", leg=1)
    async with at_work(copy):
        await house.ends("run_2")
        await eventually(lambda: copy.grades() == 2)
    assert dict(house.reward.asked) == {("tool_steps", "run_1"): 1, ("tool_steps", "run_2"): 1}


async def test_an_end_in_hand_is_finished_before_the_watch_stops_and_the_rest_is_left() -> None:
    house = Production()
    await house.ends("run_1")
    await house.ends("run_2")
    one, gate = house.watch(), asyncio.Event()
    began, score = asyncio.Event(), house.reward.Score

    async def slow(request: object, call: object) -> object:
        began.set()
        await gate.wait()
        return await score(request, call)  # type: ignore[arg-type]

    house.reward.Score = slow  # type: ignore[method-assign, assignment]
    duty = asyncio.create_task(one.watch.run())
    await began.wait()
    await one.watch.finish()
    gate.set()
    await asyncio.wait_for(duty, 5)
    assert one.grades() == 1
    ledger = Ledger(house.bus.bucket(GRADED), 60.0)
    assert await ledger.claim("run_1", 0) == Held(0.0, settled=True)
    assert isinstance(await ledger.claim("run_2", 0), Claim), "what was not begun is anybody's"


@simulate_time
async def test_a_watch_that_is_cut_off_leaves_its_run_to_the_next_one_at_once() -> None:
    house = Production(clock=loop_time)
    await house.ends("run_1")
    one, began = house.watch(), asyncio.Event()
    score = house.reward.Score

    async def hangs(request: object, call: object) -> object:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    house.reward.Score = hangs  # type: ignore[method-assign, assignment]
    duty = asyncio.create_task(one.watch.run())
    await began.wait()
    duty.cancel()
    await asyncio.gather(duty, return_exceptions=True)
    house.reward.Score = score  # type: ignore[method-assign]
    other = house.watch()
    async with at_work(other):
        await eventually(lambda: other.grades() == 1)
    assert loop_time() < Config().lease_s, "not after its lease"


async def test_a_grader_that_there_is_not_stops_the_watch_with_its_name() -> None:
    with pytest.raises(InvalidField, match="'nope'"):
        await Production().watch(graders=("nope",)).watch.run()


def test_models_get_labels_of_their_own_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_MODELS", 2)
    copy = Production().watch()
    found = [copy.watch._metrics.model(name) for name in ("a", "b", "c", "a")]
    assert found == ["a", "b", "other", "a"]

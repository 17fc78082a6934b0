"""Verifiers in processes of their own: alignment, late and deadly items, callers that go away."""

from __future__ import annotations

import asyncio
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.call import Call
from fathom.domain.grading.graders import GRADERS, Item, Score, ToolStep
from fathom.domain.grading.pool import CHUNK, Pool, Verifier
from fathom.domain.grading.verifier import decode_score, encode_item, grade_item, item_from, serve
from tests.support.processes import suspend
from tests.support.waiting import eventually
from tests.unit.reward.house import House

EM = [("em", Item(str(number % 3), ["1"])) for number in range(300)]


async def test_many_items_come_back_in_order() -> None:
    pool = Pool(2, 10.0)
    try:
        found = await pool.grade(EM)
        assert [one.value if isinstance(one, Score) else one for one in found] == [
            float(n % 3 == 1) for n in range(300)
        ]
        assert await pool.grade(EM[:1]) == found[:1]
        assert await pool.grade([]) == []
    finally:
        await pool.close()


async def test_a_late_item_fails_alone_and_the_rest_goes_on() -> None:
    """SIGSTOP makes any item late; the process that comes after it is a fresh one."""
    verifier = Verifier(2.0)
    try:
        await verifier.grade(EM[:1])
        process = verifier._process
        assert process is not None
        suspend(process.pid)
        found = await verifier.grade(EM[:5])
        assert found[0] == "took longer than 2 s"
        assert [one.value for one in found[1:] if isinstance(one, Score)] == [1.0, 0.0, 0.0, 1.0]
        assert process.returncode == -signal.SIGKILL
    finally:
        await verifier.close()


async def test_an_item_that_ends_its_process_fails_alone() -> None:
    verifier = Verifier(5.0)
    try:
        await verifier.grade(EM[:1])
        process = verifier._process
        assert process is not None
        process.kill()
        await process.wait()
        assert len(await verifier.grade(EM[:3])) == 3
        assert verifier._process is not process
    finally:
        await verifier.close()


async def test_what_a_lost_caller_was_owed_reaches_nobody_else() -> None:
    pool = Pool(1, 30.0)
    try:
        slow = [("em", Item("x " * 200_000, ["y"]))] * CHUNK
        lost = asyncio.create_task(pool.grade(slow))
        await eventually(lambda: pool._verifiers[0]._process)  # it is given the chunk as soon as it is there
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        assert await pool.grade([("em", Item("1", ["1"]))]) == [Score(1.0)]
    finally:
        await pool.close()


async def test_callers_share_the_verifiers() -> None:
    pool = Pool(2, 30.0)
    try:
        batches = [
            [("number", Item(str(n), [str(n + shift)], {"rel_tol": 0.0, "abs_tol": 0.0})) for n in range(100)]
            for shift in (0, 1)
        ]
        same, other = await asyncio.gather(*map(pool.grade, batches))
        assert {one.value for one in same if isinstance(one, Score)} == {1.0}
        assert {one.value for one in other if isinstance(one, Score)} == {0.0}
    finally:
        await pool.close()


@given(
    st.sampled_from(sorted(GRADERS)), st.text(), st.lists(st.text(), max_size=3), st.text(),
    st.lists(st.builds(ToolStep, st.text(max_size=5), st.booleans(), st.booleans()), max_size=3), st.lists(st.text(max_size=5), max_size=3),
)  # fmt: skip
def test_items_and_answers_survive_the_way(
    grader: str, answer: str, references: list[str], response: str, steps: list[ToolStep], tools: list[str]
) -> None:
    import io
    import json

    parameters = {name: parameter.default for name, parameter in GRADERS[grader].parameters.items()}
    item = Item(answer, references, parameters, response, tuple(steps), tools)
    line = encode_item(grader, item)
    assert line.count(b"\n") == 1
    assert item_from(json.loads(line)) == item
    said = io.BytesIO()
    serve(io.BytesIO(line), said)
    assert decode_score(said.getvalue()) == grade_item(grader, item)


async def test_the_service_grades_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    pool = Pool(1, 120.0)
    monkeypatch.setattr(house.engine, "_pool", pool)
    try:
        request = pb.ScoreRequest(items=[pb.ScoreItem(grader="math", answer="1/2", references=["0.5"])])
        assert (await house.servicer.Score(request, Call("r"))).scores[0].value == 1.0
    finally:
        await pool.close()

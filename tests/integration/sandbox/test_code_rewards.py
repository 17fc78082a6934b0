"""Cells of the reward ``code_run`` in real sandboxes, with sheets injected."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed
from fathom.services.reward.config import Config
from fathom.services.sandbox.config import Config as SandboxConfig
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.server import SandboxServicer
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.integration.sandbox.conftest import make_front
from tests.support.tables import to_arrow
from tests.unit.reward.house import House

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLE = pd.DataFrame({"year": [2021, 2022, 2023, 2024], "revenue": [100.0, 110.0, 132.0, 198.0]})
GOOD = """
def growth(frame):
    ordered = frame.sort_values('year')
    ratio = ordered['revenue'].pct_change()
    clean = ratio.dropna()
    best = clean.max()
    rounded = round(float(best), 4)
    return rounded

print(growth(sheet_1))
"""
LOOK = "def show(f):\n    return f.head()\nprint(show(sheet_1))"
SLEEP = "import time\ndef wait(n):\n    time.sleep(n)\n    return n\nprint(wait(30))"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front() -> AsyncIterator[SupervisorClient]:
    front = make_front(max_sessions=4, spares=1)
    await front.start()
    yield front
    await front.close()


def house_of(front: SupervisorClient) -> House:
    store = MemoryStore()
    return House(
        Config(concurrent_cells=2), peers={"sandbox": SandboxServicer(front, store, SandboxConfig())}, store=store
    )


def item(code: str, references: tuple[str, ...] = (), **parameters: float) -> pb.ScoreItem:
    frame = pb.ScoreFrame(name="sheet_1", arrow=to_arrow(TABLE))
    return pb.ScoreItem(grader="code_run", response=code, references=references, parameters=parameters, frames=[frame])


async def scores(house: House, *items: pb.ScoreItem) -> list[pb.Score]:
    return list((await house.servicer.Score(pb.ScoreRequest(items=items), Call.new(timeout_s=60))).scores)


async def test_a_good_cell_runs_on_its_sheet_and_is_paid_for_its_answer(front: SupervisorClient) -> None:
    right, wrong, plain = await scores(house_of(front), item(GOOD, ("50%",)), item(GOOD, ("20%",)), item(GOOD))
    assert dict(right.components)["execution"] == 1.0
    assert (right.components["answer"], wrong.components["answer"]) == (1.0, 0.0)
    assert right.value - wrong.value == pytest.approx(1.0)
    assert right.components["style"] == 1.0
    assert plain.value == pytest.approx(0.5 * 1.0 + 0.5 * plain.components["length"])
    assert plain.components["length"] >= 0.8


async def test_errors_timeouts_and_looks_earn_nothing(front: SupervisorClient) -> None:
    """Errors and timeouts score 0, and so does a cell that only looks at a table."""
    broken = GOOD.replace("'revenue'", "'sales'")
    error, late, look, text = await scores(
        house_of(front), item(broken, ("50%",)), item(SLEEP, wall_s=1.0), item(LOOK), item("no python at all")
    )
    assert (error.value, error.components["execution"]) == (0.0, 0.0)
    assert "KeyError" in error.reason
    assert (late.value, late.components["execution"]) == (0.0, 0.0)
    assert "timeout" in late.reason
    assert late.components["duration_ms"] < 10_000
    assert look.value == -0.5
    assert look.components["hack_dataframe_only"] == 1.0
    assert text.value == 0.0


async def test_sheets_come_by_reference_and_cells_share_nothing(front: SupervisorClient) -> None:
    house = house_of(front)
    ref = to_ref(await house.store.put("sheets/1", to_arrow(TABLE)))
    by_ref = item(GOOD, ("0.5",))
    by_ref.frames[0].ref.CopyFrom(ref)
    leak = item("def f():\n    global secret\n    secret = 1\n    return sheet_1.size\nprint(f())")
    look_for = item("def f():\n    return 'secret' in globals()\nprint(f())")
    first, _, found = await scores(house, by_ref, leak, look_for)
    assert first.components["answer"] == 1.0
    assert found.components["execution"] == 1.0
    again = (
        await scores(house, item("def f():\n    x = 'secret' in globals()\n    return str(x)\nprint(f())", ("False",)))
    )[0]
    assert again.components["answer"] == 1.0


async def test_no_session_is_left_behind(front: SupervisorClient) -> None:
    house = house_of(front)
    for _ in range(2):  # more cells than there are sessions
        await scores(house, *[item(GOOD) for _ in range(5)])
    assert all(one.value > 0.5 for one in await scores(house, *[item(GOOD) for _ in range(3)]))


async def test_a_sandbox_that_fails_is_tried_once_more_then_worth_0_and_told(front: SupervisorClient) -> None:
    class Failing:
        tries = 0

        async def CreateSession(
            self, request: sandbox.CreateSessionRequest, call: Call
        ) -> sandbox.CreateSessionResponse:
            self.tries += 1
            raise DependencyFailed("supervisor", "is gone")

    peer = Failing()
    house = House(peers={"sandbox": peer})
    (found,) = await scores(house, item(GOOD))
    assert found.value == 0.0
    assert found.components["failed"] == 1.0
    assert "the sandbox failed" in found.reason
    assert house.read_count("fathom_reward_failures_total", grader="code_run") == 1


async def test_a_frame_that_is_none_is_the_callers_fault_not_the_codes(front: SupervisorClient) -> None:
    bad = item(GOOD)
    bad.frames[0].arrow = b"nothing"
    (found,) = await scores(house_of(front), bad)
    assert found.components["failed"] == 1.0
    assert "sheet_1" in found.reason or "Arrow" in found.reason


async def test_programs_are_graded_by_their_tests(front: SupervisorClient) -> None:
    """One after the other in one session; a program that never ends fails the tests behind it, too."""
    tests = '{"inputs": ["1 2\\n", "3 4\\n"], "outputs": ["3", "7"]}'
    right = "a, b = map(int, input().split())\nprint(a + b)"
    half = "print(3 if input() == '1 2' else 0)"
    endless = "while True:\n    pass"

    def make_item(program: str, reference: str = tests) -> pb.ScoreItem:
        answer = f"Here it is:\n```python\n{program}\n```"
        return pb.ScoreItem(grader="code_tests", answer=answer, references=[reference], parameters={"wall_s": 3.0})

    found = await scores(house_of(front), *(make_item(one) for one in (right, half, endless)), make_item(right, "72"))
    assert [score.value for score in found] == [1.0, 0.5, 0.0, 0.0]
    assert [score.components["correct"] for score in found[:3]] == [1.0, 0.0, 0.0]
    assert found[3].components["failed"] == 1.0

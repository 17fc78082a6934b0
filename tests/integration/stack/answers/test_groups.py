"""Questions on a group of companies, answered with the names of its members."""

from __future__ import annotations

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest.mark.parametrize(
    ("question", "name", "words"),
    [
        ("Which stock rose most in 2022?", "Exxon Mobil: 84.15%", "stock ("),
        ("2022年哪只股票涨得最多", "埃克森美孚", "股票 ("),
    ],
)
async def test_the_best_of_a_group_is_named(
    stack: tuple[Endpoints, Clients], question: str, name: str, words: str
) -> None:
    events = [event async for event in run(stack[1], pb.RunRequest(question=question))]
    answer = events[-1].finished.answer.markdown
    assert name in answer
    assert "84.15" in answer
    assert words not in answer

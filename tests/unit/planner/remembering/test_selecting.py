"""Test that the settings of a planner choose which levels of memory it uses, each by its own budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fathom.services.planner.config import Config
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.server import make_remembering
from tests.unit.planner.house import House, finish
from tests.unit.planner.remembering.test_memory_of_runs import EURO, AppleReader, FakeMemory

ANSWER = "Apple closed at 129.93."


def choose(house: House, memory: FakeMemory, tokens: int) -> Any:
    """Return what a planner with this budget for facts and views makes of its settings."""
    understanding: Any = SimpleNamespace(
        rewriter=SimpleNamespace(reader=AppleReader()), measures=None, classifier=None
    )  # fmt: skip
    deps: Any = SimpleNamespace(clients=SimpleNamespace(memory=memory), telemetry=house.telemetry)
    return make_remembering(Config(memory_tokens=tokens), deps, house.record, understanding, load_catalogue())


@pytest.mark.parametrize(("tokens", "given"), [(0, []), (500, ["f1"])])
async def test_a_budget_of_nothing_leaves_facts_and_views_out(tokens: int, given: list[str]) -> None:
    house, memory = House(finish(ANSWER)), FakeMemory([EURO])
    await house.ask(question="What did Apple close at?")
    worker = house.worker()
    worker.preparer.remembering = worker.ends.remembering = choose(house, memory, tokens)
    async with house.working(worker):
        events = await house.events()
    assert events[-1].finished.answer.markdown == ANSWER
    held = await house.record.get_remembered("run_1")
    assert [fact.id for fact in held.facts] == given if held else given == []
    assert (worker.preparer.remembering is None) == (tokens == 0)

"""Composites: weights from the settings and the request, gates, optional parts, values per component."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import InvalidField
from fathom.services.reward.composite import Composite
from fathom.services.reward.config import Config
from tests.unit.reward.house import House

CALL = Call("req_1")
STEPS = [pb.ToolStep(tool="search", ok=True), pb.ToolStep(tool="python", ok=False), pb.ToolStep(tool="search", ok=True, repeated_call=True)]  # fmt: skip


def item(answer: str = "7", **fields: object) -> pb.ScoreItem:
    return pb.ScoreItem(**{"grader": "agent", "answer": answer, "references": ["7"], "steps": STEPS, "expected_tools": ["search"], **fields})  # type: ignore[arg-type]  # fmt: skip


async def value(message: pb.ScoreItem, house: House | None = None) -> pb.Score:
    return (await (house or House()).servicer.Score(pb.ScoreRequest(items=[message]), CALL)).scores[0]


async def test_outcome_tools_and_steps_are_summed_and_told_apart() -> None:
    score = await value(item())
    assert score.components["outcome"] == 1.0
    assert score.components["tool_choice"] == pytest.approx(2 / 3)
    assert score.components["steps"] == pytest.approx(1 / 3)
    assert score.components["steps.repeated"] == 1.0
    # Weights 1, 0.2 and 0.1 of the preset "agent".
    assert score.value == pytest.approx(1.0 + 0.2 * 2 / 3 + 0.1 / 3)
    assert "python does not fit" in score.reason


async def test_the_request_sets_weights() -> None:
    score = await value(item(parameters={"outcome_weight": 2.0, "tool_choice_weight": 0.0, "steps_weight": 0.0}))
    assert score.value == 2.0


async def test_an_optional_part_is_left_out_and_a_needed_one_is_named() -> None:
    score = await value(item(expected_tools=[]))
    assert "tool_choice" not in score.components
    # Without expected tools that part is neither earned nor missed.
    assert score.value == pytest.approx(1.0 + 0.1 / 3)
    with pytest.raises(InvalidField) as bad:
        await value(item(references=[]))
    assert bad.value.field == "items[0].references"
    with pytest.raises(InvalidField) as bad:
        await value(item(grader="tool_choice", expected_tools=[]))
    assert bad.value.field == "items[0].expected_tools"


@pytest.mark.parametrize("parameters", [{"nope": 1.0}, {"outcome_weight": -1.0}, {"outcome_weight": 1e9}])
async def test_bad_weights_are_named(parameters: dict[str, float]) -> None:
    with pytest.raises(InvalidField, match=r"items\[0\]\.parameters"):
        await value(item(parameters=parameters))


async def test_a_gate_multiplies_and_a_penalty_takes_away() -> None:
    parts = {
        "right": {"grader": "em"},
        "form": {"grader": "format", "weight": 0.5},
        "loops": {"grader": "tool_steps", "weight": -0.3},
    }
    composite = Composite.model_validate({"parts": parts, "gate": "right"})
    house = House(Config(composites={"gated": composite}))
    response = "<answer>7</answer>"
    right = await value(item(grader="gated", response=response), house)
    # The penalty's part is earned to a third and counts negative.
    assert right.value == pytest.approx(1.0 + 0.5 - 0.3 / 3)
    wrong = await value(item("8", grader="gated", response=response), house)
    # The gate is the outcome: without it the form is worth nothing.
    assert wrong.value == 0.0
    assert wrong.components["form"] == 1.0


@pytest.mark.parametrize(
    ("composite", "word"),
    [
        ({"parts": {}}, "parts"), ({"parts": {"a": {"grader": "nope"}}}, "no grader 'nope'"),
        ({"parts": {"a": {"grader": "em", "parameters": {"x": 1}}}}, "has no 'x'"),
        ({"parts": {"a": {"grader": "em"}}, "gate": "b"}, "gate 'b'"), ({"parts": {"a": {"grader": "em", "weight": 1e9}}}, "weight"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(composite: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        Composite.model_validate(composite)


def test_a_composite_cannot_take_a_graders_name() -> None:
    with pytest.raises(ValidationError, match="'em' is a grader"):
        Config.model_validate({"composites": {"em": {"parts": {"a": {"grader": "f1"}}}}})


async def test_grades_are_counted_by_grader_and_lane() -> None:
    """Production is watched by these counts."""
    house = House()
    await value(item(), house)
    await value(item("8"), house)
    assert house.read_count("fathom_reward_value_count", grader="agent", lane="interactive") == 2
    assert house.read_count("fathom_reward_value_bucket", grader="agent", lane="interactive", le="0.5") == 1

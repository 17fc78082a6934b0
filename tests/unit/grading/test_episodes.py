"""From trajectories to items: which calls count as repeated, which cells are the episode's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.cli.answers import Sample
from fathom.core.errors import InvalidField
from fathom.domain.grading.episodes import answer_item, cell_items, frames, tool_steps
from fathom.operations.monitoring.grades import read_references


def step(*calls: tuple[str, str, str, int]) -> pb.Step:
    """Calls as id, tool, arguments and status."""
    return pb.Step(
        completion=policy.Completion(
            text=f"<{len(calls)}>",
            tool_calls=[policy.ToolCall(id=one, name=tool, arguments_json=said) for one, tool, said, _ in calls],
        ),
        tool_results=[pb.ToolResult(tool_call_id=one, tool=tool, status=status) for one, tool, _, status in calls],  # type: ignore[arg-type]
    )


def test_calls_are_repeated_when_tool_and_arguments_are_the_same() -> None:
    ok, failed = pb.TOOL_STATUS_OK, pb.TOOL_STATUS_FAILED
    steps = [
        # Arguments are compared as JSON: order and blanks make no other call. What is no JSON is compared as text.
        step(("a", "search", '{"q": "x", "k": 3}', ok)),
        step(("b", "search", '{"k": 3,"q": "x"}', ok), ("c", "search", '{"q": "y"}', pb.TOOL_STATUS_EMPTY)),
        step(
            ("d", "fetch", '{"q": "y"}', failed),
            ("e", "search", "no json", ok),
            ("f", "search", "no json", pb.TOOL_STATUS_INVALID),
        ),
    ]
    found = [(one.tool, one.ok, one.repeated_call) for one in tool_steps(steps)]
    assert found == [
        # The third one found nothing, which is no success.
        ("search", True, False), ("search", True, True), ("search", False, False),
        ("fetch", False, False), ("search", True, False), ("search", False, True),
    ]  # fmt: skip


def test_cells_and_sheets_are_the_episodes_own() -> None:
    # A cell of a sub-run is another episode's, a sheet has its data by reference, "[sic]" cites nothing.
    episode = pb.Trajectory(
        answer=pb.Answer(markdown="7 [1], [2, 3] and [sic]"),
        steps=[
            pb.Step(
                material=[
                    pb.Material(variable="sheet_1", sheet={"id": "s", "data": {"key": "sheets/s"}}),
                    pb.Material(code=pb.CodeRecord(code="print(1)", stdout="1\n", ok=True)),
                    pb.Material(code=pb.CodeRecord(code="print(2)", run_id="child", ok=True)),
                    pb.Material(code=pb.CodeRecord(code="print(x)", ok=False)),
                ]
            )
        ],
    )
    assert [(item.response, item.answer, dict(item.parameters)) for item in cell_items(episode, "code")] == [
        ("print(1)", "1\n", {"finished": 1.0}),
        ("print(x)", "", {"finished": 0.0}),
    ]
    assert [frame.name for frame in cell_items(episode, "code_run")[0].frames] == ["sheet_1"]
    assert frames(episode)[0].ref.key == "sheets/s"
    item = answer_item(episode, "em", references=["7"], expected_tools=["search"])
    assert (item.answer, list(item.references), list(item.expected_tools)) == ("7, and [sic]", ["7"], ["search"])


def test_a_sample_is_the_same_whenever_it_is_drawn() -> None:
    sample = Sample(share=0.3, seed=1)
    drawn = [sample.takes(f"run_{number}") for number in range(2_000)]
    assert drawn == [sample.takes(f"run_{number}") for number in range(2_000)]
    # 600 of 2,000, with a standard deviation of 20.
    assert 500 < sum(drawn) < 700
    assert not any(Sample(share=0.0).takes(f"run_{number}") for number in range(50))


def test_references_are_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    # A blank around the question and a number as a reference, as hand-written files have them.
    file = tmp_path / "references.jsonl"
    file.write_text('{"question": " q ", "references": ["a", 7]}\n\n')
    assert read_references(file) == {"q": ["a", "7"]}
    file.write_text('{"question": "q", "references": ["a"]}\n{"question": "q"}\n')
    with pytest.raises(InvalidField, match="line 2"):
        read_references(file)

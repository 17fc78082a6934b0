"""From a run's trajectory to what the reward service grades: the same items in training and of production."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.reward.v1 import reward_pb2 as reward

CITATION = re.compile(r"\s*\[\d{1,4}(?:\s*,\s*\d{1,4})*\]")
GIVES = frozenset({pb.TOOL_STATUS_OK, pb.TOOL_STATUS_EMPTY})
"""How a call ends that worked; one that found nothing did work."""


def tool_steps(steps: Sequence[pb.Step]) -> list[reward.ToolStep]:
    """The tool calls in order, each with whether it worked and whether the same was called before."""
    seen: set[tuple[str, str]] = set()
    found = []
    for step in steps:
        arguments = {call.id: call.arguments_json for call in step.completion.tool_calls}
        for result in step.tool_results:
            key = result.tool, canonical(arguments.get(result.tool_call_id, result.tool_call_id))
            found.append(reward.ToolStep(tool=result.tool, ok=result.status in GIVES, repeated_call=key in seen))
            seen.add(key)
    return found


def canonical(arguments_json: str) -> str:
    """Arguments in one spelling; what is no JSON stands as it is."""
    try:
        return json.dumps(json.loads(arguments_json), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments_json


def cells(episode: pb.Trajectory) -> list[pb.CodeRecord]:
    """The cells that the episode's own model ran, in order; those of a delegated run are another episode's."""
    return [item.code for item in material(episode) if item.HasField("code") and not item.code.run_id]


def frames(episode: pb.Trajectory) -> list[reward.ScoreFrame]:
    """The episode's sheets under the names that its cells know them by."""
    return [
        reward.ScoreFrame(name=item.variable, ref=item.sheet.data)
        for item in material(episode)
        if item.HasField("sheet") and item.variable and item.sheet.data.key
    ]


def material(episode: pb.Trajectory) -> Iterator[pb.Material]:
    return (item for step in episode.steps for item in step.material)


def answer_item(
    episode: pb.Trajectory,
    grader: str,
    *,
    references: Sequence[str] = (),
    parameters: Mapping[str, float] | None = None,
    expected_tools: Sequence[str] = (),
) -> reward.ScoreItem:
    """The episode's answer without its citations, with its tool calls; the response is all that its model sampled."""
    return reward.ScoreItem(
        grader=grader,
        answer=CITATION.sub("", episode.answer.markdown),
        references=references,
        parameters=parameters or {},
        response="".join(step.completion.text for step in episode.steps),
        steps=tool_steps(episode.steps),
        expected_tools=expected_tools,
    )


def cell_items(episode: pb.Trajectory, grader: str) -> list[reward.ScoreItem]:
    """One item per cell: as it ran then for ``code``, with its sheets to be run anew for ``code_run``."""
    sheets = frames(episode) if grader == "code_run" else []
    return [
        reward.ScoreItem(
            grader=grader,
            answer=cell.stdout or ("[figure]" if cell.figures else ""),
            response=cell.code,
            parameters={"finished": float(cell.ok)} if grader in ("code", "code_execution") else {},
            frames=sheets,
        )
        for cell in cells(episode)
    ]

"""Conversion of a run's trajectory to reward-service items, the same for training and production runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.reward.v1 import reward_pb2 as reward

# Citations such as " [3]" or "[1, 2]": references have none, so that an exact match would never succeed with them.
CITATION = re.compile(r"\s*\[\d{1,4}(?:\s*,\s*\d{1,4})*\]")


def tool_steps(steps: Sequence[pb.Step]) -> list[reward.ToolStep]:
    """Return the tool calls in order, with whether each gave a result and whether it repeats an earlier call.

    A call that found nothing gave none: whoever rewards it teaches to ask for what is not there.
    """
    seen: set[tuple[str, str]] = set()
    found = []
    for step in steps:
        arguments = dict(map(attrgetter("id", "arguments_json"), step.completion.tool_calls))
        for result in step.tool_results:
            # The same arguments in another order, or with other spaces, are the same call.
            key = result.tool, canonical(arguments.get(result.tool_call_id, result.tool_call_id))
            found.append(
                reward.ToolStep(tool=result.tool, ok=result.status == pb.TOOL_STATUS_OK, repeated_call=key in seen)
            )
            seen.add(key)
    return found


def canonical(arguments_json: str) -> str:
    """Return arguments in canonical JSON; text that is not JSON is returned unchanged."""
    try:
        return json.dumps(json.loads(arguments_json), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments_json


def cells(episode: pb.Trajectory) -> list[pb.CodeRecord]:
    """Return the cells that the episode's own model ran, in order, without those of delegated runs."""
    return [item.code for item in material(episode) if item.HasField("code") and not item.code.run_id]


def frames(episode: pb.Trajectory) -> list[reward.ScoreFrame]:
    """Return the episode's sheets under the variable names used by its cells."""
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
    """Build the item for the episode's answer without citations; its response is all text that the model sampled."""
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
    """Build one item per cell: with its recorded result for ``code``, with its sheets for a rerun with ``code_run``."""
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

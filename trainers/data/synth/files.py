"""Files of the generated tasks: parquet per scenario, and the solutions beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from fathom.core.errors import NotFound
from fathom.trainers.data.records import write
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.code import code_tasks
from fathom.trainers.data.synth.search import search_tasks
from fathom.trainers.data.synth.table import table_tasks
from fathom.trainers.data.synth.task import SCENARIOS, Scenario, SynthTask, split_tasks

GENERATORS: Mapping[Scenario, Callable[[Bundle, int, int], list[SynthTask]]] = {
    "search": search_tasks,
    "code": code_tasks,
    "table": table_tasks,
}
COUNT = 150


def generate(bundle: Bundle, scenario: str, count: int = COUNT, seed: int = 7) -> list[SynthTask]:
    """Generate ``count`` tasks of a scenario; raises ``NotFound`` for an unknown one."""
    for known in SCENARIOS:
        if known == scenario:
            return GENERATORS[known](bundle, count, seed)
    raise NotFound("scenario", scenario, SCENARIOS)


def write_tasks(
    bundle: Bundle, target: Path, count: int = COUNT, seed: int = 7, test_share: float = 0.2
) -> dict[str, dict[str, int]]:
    """Write ``target``/SCENARIO/{train,test}.parquet and paths.jsonl.

    Return the number of tasks per scenario and split.
    """
    written: dict[str, dict[str, int]] = {}
    for scenario in SCENARIOS:
        folder = target / scenario
        sides = split_tasks(generate(bundle, scenario, count, seed), test_share, seed)
        for split, tasks in sides.items():
            write([task.record(split, index) for index, task in enumerate(tasks)], folder / f"{split}.parquet")
        lines = [json.dumps(solution(task, split), ensure_ascii=False) for split in sides for task in sides[split]]
        (folder / "paths.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        written[scenario] = {split: len(tasks) for split, tasks in sides.items()}
    return written


def solution(task: SynthTask, split: str) -> dict[str, object]:
    """Return a task's solution, from which demonstrations are made."""
    return {
        "id": task.id,
        "split": split,
        "question": task.question,
        "tools": list(task.tools),
        "path": [{"tool": step.tool, "arguments": dict(step.arguments)} for step in task.path],
        "documents": list(task.documents),
    }

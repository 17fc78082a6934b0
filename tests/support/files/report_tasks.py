"""A set of report tasks in the form of DeepResearch Bench, written for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fathom.operations.evaluation.public.items import REPORT_SET

TASKS: list[dict[str, Any]] = [
    {"id": 1, "topic": "Finance", "language": "en", "prompt": "Compare the drawdowns of Apple and Microsoft in 2020."},
    {"id": 2, "topic": "Finance", "language": "zh", "prompt": "苹果2020年的最大回撤是多少？"},
]
WEIGHTS = {"comprehensiveness": 0.3, "insight": 0.4, "instruction_following": 0.2, "readability": 0.1}


def write_tasks(folder: Path, *, references: bool = False) -> None:
    """Write the set to its folder; each dimension has one criterion, insight two of unequal weight."""

    def make_criterion(name: str, weight: float) -> dict[str, Any]:
        return {"criterion": name, "explanation": f"whether there is {name}", "weight": weight, "comment": "not used"}

    criteria = {name: [make_criterion(f"enough {name}", 1.0)] for name in WEIGHTS}
    criteria["insight"] = [make_criterion("causes", 0.25), make_criterion("consequences", 0.75)]
    rubrics = [
        {"id": task["id"], "prompt": task["prompt"], "dimension_weight": WEIGHTS, "criterions": criteria}
        for task in TASKS
    ]
    files: dict[str, list[dict[str, Any]]] = {"query": TASKS, "criteria": rubrics}
    if references:
        files["reference"] = [{**task, "article": f"A reference on {task['prompt']}"} for task in TASKS]
    home = folder / REPORT_SET
    home.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (home / f"{name}.jsonl").write_text(text, encoding="utf-8")

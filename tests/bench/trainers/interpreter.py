"""Measure what the interpreter's rewards do while GRPO runs: style, length and execution by step, and the report.

``fathom train interpreter`` as the command runs it, on a stack of its own: cells run in the sandbox on tables from
datafetch. The model is tiny and each of its words is a whole call, good cells and the kinds that were seen to be
hacks, so that what is learned is which code to write. Last quarter of the steps against the first.
``BENCH_STEPS`` (40), ``BENCH_OUTPUT`` (keeps the report).
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from fathom.services.local import LocalSettings, LocalStack
from fathom.trainers.data.records import Record, write
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from tests.support.training.metrics import read_lines

STEPS = int(os.environ.get("BENCH_STEPS", "40"))
DATA = Path(".fathom/data").resolve()
QUESTIONS = tuple(
    f"Adjusted close of {name} in {year}" for name in ("Apple", "Microsoft", "Coca-Cola") for year in (2018, 2019)
)
GOOD = """def growth(frame):
    prices = frame.select_dtypes("number").iloc[:, 0].dropna()
    first = prices.iloc[0]
    last = prices.iloc[-1]
    change = last / first - 1
    rows = len(prices)
    return {"change": change, "rows": rows}
result = growth(sheet_1)
print(result)"""
SHORT = "def mean(frame):\n    return frame.select_dtypes('number').mean()\nprint(mean(sheet_1))"
LOOSE = """numbers = sheet_1.select_dtypes("number")
prices = numbers.iloc[:, 0].dropna()
first = prices.iloc[0]
last = prices.iloc[-1]
print(last / first - 1)"""
CELLS = (GOOD, SHORT, LOOSE, "print(sheet_1.head())", "print(undefined_name)", "print('done')", "sheet_1.describe()")
COMPONENTS = ("style", "length", "execution")


def call(name: str, **arguments: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': {'intent': 'x', **arguments}})}</tool_call>"


def settings(folder: Path) -> Path:
    """The YAML file of the training."""
    words = [*(call("python", code=cell) for cell in CELLS), call("finish", answer="It rose.")]
    content = {
        "model": {"path": "tiny", "name": "tiny-coder", "hidden": 32, "layers": 1, "window": 8192, "vocabulary": words},
        "data": {"train_files": [str(folder / "train.parquet")], "train_batch_size": 2, "max_response_length": 4096},
        "rollout": {"n": 8, "max_turns": 2, "max_tokens": 1, "timeout_s": 1800, "record": False},
        "actor": {"optim": {"lr": 0.006}, "ppo_mini_batch_size": 2, "use_kl_loss": False, "entropy_coeff": 0.01},
        "trainer": {"total_training_steps": STEPS, "total_epochs": STEPS, "save_freq": 0, "output": str(folder)},
    }
    path = folder / "interpreter.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def prompts() -> list[Record]:
    return [
        Record("code", (("user", question),), "code", ("none",), "train", index, question=question, grader="number")
        for index, question in enumerate(QUESTIONS)
    ]


def quarters(steps: Sequence[Mapping[str, float]], name: str) -> tuple[float, float]:
    """Means over the first and the last quarter."""
    values = [metrics[name] for metrics in steps if name in metrics]
    size = max(1, len(values) // 4)
    return sum(values[:size]) / size, sum(values[-size:]) / size


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    with tempfile.TemporaryDirectory() as name:
        home, output = Path(name), Path(os.environ.get("BENCH_OUTPUT", f"{name}/training"))
        (home / "data").symlink_to(DATA)
        output.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
        write(prompts(), output / "train.parquet")
        config = load_settings("interpreter", [settings(output)], ["interpreter.task_weight=0"])
        models = {"rules": {"engine": "rules"}}
        async with LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running() as endpoints:
            place = Place(endpoints.services, endpoints.store)
            training = Run("interpreter", config, place, lambda step, total, metrics: None, Interruption())
            outcome = await asyncio.to_thread(training.train)
        lines = read_lines(output / "metrics.jsonl")
        steps = [lines[step] for step in sorted(lines) if step]
        page = outcome.report.read_text(encoding="utf-8")
    print(f"{'by step':<18}{'first quarter':>15}{'last quarter':>14}{'difference':>12}")
    for part in (*(f"reward/{name}" for name in COMPONENTS), "critic/score/mean", "code/length", "code/hack_rate"):
        first, last = quarters(steps, part)
        curve = " ".join(f"{metrics[part]:.2f}" for metrics in steps if part in metrics)
        print(f"{part:<18}{first:>15.3f}{last:>14.3f}{last - first:>+12.3f}   {curve}")
    shown = [name for name in COMPONENTS if f"reward/{name}" in page]
    print(f"{len(steps)} steps; the report has curves of {', '.join(shown)}: {outcome.report}")

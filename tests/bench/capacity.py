"""Capacity of a release of one pod per service: processor seconds and memory of a question and of a rollout.

Measured on the simulated cluster; what one processor and eight would do is extrapolated from it, as if nothing but the
processors were in the way. Grading is among the pods, and grades questions as they end.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.cluster.node import inside, why_not

# Somebody who reads an answer before the next question.
SECONDS_BETWEEN_QUESTIONS = 120.0
PROCESSORS = (1, 2, 8)


async def run() -> None:
    if reason := why_not():
        print(f"left out: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        found = await asyncio.to_thread(inside, "capacity", Path(folder) / "node", timeout_s=1800.0)
    for work, measured in found.items():
        print(describe(work, measured))


def describe(work: str, measured: Mapping[str, Any]) -> str:
    """Return the lines of one kind of work: what it takes of each pod, what a pod and some processors carry."""
    count, spent = measured["count"], measured["processor_s"]
    total = sum(spent.values()) / count
    lines = [f"{work}: {count} in {measured['seconds']:.0f} s, {total:.2f} processor seconds each"]
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        each = seconds / count
        # Less than a clock's tick each: nothing to extrapolate from.
        carried = f"{1 / each:8.1f} a second by a pod with one processor" if each >= 0.005 else ""
        lines.append(
            f"  {name:<10} {each:6.2f} processor s each, {measured['memory_mib'][name]:5.0f} MiB {carried}".rstrip()
        )
    for processors in PROCESSORS:
        line = f"  extrapolated, {processors} in all: {processors / total:.2f} a second"
        # Trainings ask as fast as they are answered: of them no number of users follows.
        if work == "question":
            line += f", {processors * SECONDS_BETWEEN_QUESTIONS / total:.0f} users"
        lines.append(line)
    return "\n".join(lines)

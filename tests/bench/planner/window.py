"""Step policies on scripted long runs: how long requests get, what is kept, what is answered, what it costs.

The real loop, registry, window and the reference policy's tokenizer; tools and model are scripted. Every run asks
for three numbers in the end, which early, middle and late rounds have found. ``shown`` answers come from the last
request alone, ``recalled`` ones also from the results that it offers to recall. The baseline is ``off``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.domain.chat.messages import Completion, FinishReason, Message, Usage
from fathom.services.planner.model.compaction import StepPolicy, WindowSettings
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.window.quantities import canonicalise, find_numbers
from tests.unit.planner.window.long_runs import Run, ScriptedWriter, mix_lines, play

ROUNDS = (25, 40)
SEEDS = range(6)
SOURCES = ("python", "data")


@dataclass
class Quoting(ScriptedWriter):
    """A writer that copies some lines with numbers, as a fair model would, and makes nothing up."""

    seconds: list[float] = field(default_factory=list)

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion:
        lines = [line for line in messages[-1].content.splitlines() if "." in line and find_numbers(line)]
        # Every seventh line, twenty at most: a summary keeps some numbers and loses the others.
        text = "\n".join(lines[::7][:20])
        usage = Usage(len(messages[-1].content) // 3, len(text) // 3, 0, 0)
        return Completion((), (), (), text, (), FinishReason.STOP, 0, 0, usage, False, "writer")


@dataclass
class Row:
    """Figures of one policy over all runs."""

    longest: list[int] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)
    recalled: list[bool] = field(default_factory=list)
    rendered: list[int] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)


async def run() -> None:
    for rounds in ROUNDS:
        rows = {policy: await measure_policy(policy, rounds) for policy in StepPolicy}
        print(f"{rounds} rounds, {len(SEEDS)} runs; window 24,000, trigger 16,800, soft target 16,000")
        print(
            "policy     max tokens  over 24k  compactions  numbers shown  answers shown  recalled  tokens in  ms/step"
        )
        for policy, row in rows.items():
            print(format_row(policy, row, rows[StepPolicy.OFF]))


async def measure_policy(policy: StepPolicy, rounds: int) -> Row:
    row = Row()
    for seed in SEEDS:
        settings = WindowSettings(policy)
        started = time.perf_counter()
        played = await play(mix_lines(rounds, seed), settings, writer=Quoting())
        seconds = time.perf_counter() - started
        note(row, played, seconds)
    return row


def note(row: Row, played: Run, seconds: float) -> None:
    steps = played.episode.steps
    results = [
        (step.index, result)
        for step in steps[:-1]
        for result in step.results
        if result.call.name in SOURCES and result.status is ToolStatus.OK
    ]
    last = "\n".join(message.content for message in played.model.views[-1].messages)
    known = {canonicalise(number) for number in find_numbers(last)}
    # Numbers with a point: whole ones occur anywhere by chance.
    wanted = {canonicalise(number) for _, result in results for number in find_numbers(result.content) if "." in number}
    row.longest.append(max(played.model.prompts))
    row.compactions.append(len(played.notes.compactions))
    row.kept.append(len(wanted & known) / len(wanted))
    for index, result in (results[0], results[len(results) // 2], results[-1]):
        # Not one of the first, which a digest would keep in any case.
        number = next(number for number in find_numbers(result.content)[5:] if "." in number)
        row.shown.append(canonicalise(number) in known)
        offered = f'"round":{index + 1}' in last or f"round {index + 1}" in last
        row.recalled.append(canonicalise(number) in known or offered)
    # What an engine with a prefix cache has to compute: the ids that are new in each request.
    row.rendered.append(sum(len(step.completion.prompt_token_ids) for step in steps))
    row.milliseconds.append(seconds * 1000 / len(steps))


def format_row(policy: StepPolicy, row: Row, off: Row) -> str:
    over = sum(tokens > 24_000 for tokens in row.longest)
    ratio = statistics.fmean(row.rendered) / statistics.fmean(off.rendered)
    return (
        f"{policy.value:<10} {max(row.longest):>10,}  {over:>4} of {len(row.longest)}  {statistics.fmean(row.compactions):>11.1f}"
        f"  {statistics.fmean(row.kept):>12.0%}  {sum(row.shown):>6} of {len(row.shown):<4} {sum(row.recalled):>4} of {len(row.recalled)}"
        f"  {ratio:>7.2f} x  {statistics.median(row.milliseconds):>6.1f}"
    )

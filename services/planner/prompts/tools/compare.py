"""Comparison of prompts: statistics per prompt, and pairwise wins on the same question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from fathom.api.planner.v1 import trajectory_pb2 as pb


@dataclass(frozen=True)
class Score:
    """One answered question.

    ``expected`` is the share (0 to 1) of expected strings in the answer; 1 when none are expected.
    """

    question: str
    prompt: str
    finished: bool
    expected: float
    unresolved: int
    cited: int
    rounds: int
    tokens: int

    @property
    def rank(self) -> tuple[bool, float, int, bool]:
        """Return a sort key, greater is better: answered, correct, fewer unresolved citations, some citations."""
        return (self.finished, self.expected, -self.unresolved, self.cited > 0)


@dataclass(frozen=True)
class PromptStatistics:
    """Statistics of one prompt. ``win_rate`` counts a tie as half; None when it was compared with no other prompt."""

    prompt: str
    runs: int
    finished: float
    expected: float
    unresolved: float
    rounds: float
    tokens: float
    win_rate: float | None
    met: int


def score(trajectory: pb.Trajectory, stage: str, expected: Sequence[str] = ()) -> Score:
    """Score a trajectory for the prompt that it used in ``stage``."""
    text = trajectory.answer.markdown.casefold()
    held = sum(wanted.casefold() in text for wanted in expected)
    return Score(
        question=" ".join(trajectory.question.split()).casefold(),
        prompt=trajectory.prompts.get(stage, "(none)"),
        finished=trajectory.stop_reason == pb.STOP_REASON_FINISHED,
        expected=held / len(expected) if expected else 1.0,
        unresolved=len(trajectory.answer.unresolved),
        cited=len(trajectory.answer.cited),
        rounds=len(trajectory.steps),
        tokens=int(trajectory.usage.completion_tokens),
    )


def compare(scores: Iterable[Score]) -> list[PromptStatistics]:
    """Return one line per prompt, sorted by prompt id."""
    by_prompt: dict[str, list[Score]] = defaultdict(list)
    by_question: dict[str, list[Score]] = defaultdict(list)
    for one in scores:
        by_prompt[one.prompt].append(one)
        by_question[one.question].append(one)
    points: dict[str, float] = defaultdict(float)
    met: dict[str, int] = defaultdict(int)
    for runs in by_question.values():
        # On the same question only: questions differ more than prompts do.
        for one, other in combinations(runs, 2):
            # Two runs of one prompt on a question say nothing about prompts.
            if one.prompt == other.prompt:
                continue
            # A tie is half a win for each, so that the rates of two prompts add up to one.
            won = 0.5 if one.rank == other.rank else float(one.rank > other.rank)
            points[one.prompt] += won
            points[other.prompt] += 1 - won
            met[one.prompt] += 1
            met[other.prompt] += 1
    return [summarise_runs(prompt, runs, points[prompt], met[prompt]) for prompt, runs in sorted(by_prompt.items())]


def summarise_runs(prompt: str, runs: Sequence[Score], points: float, met: int) -> PromptStatistics:
    count = len(runs)
    return PromptStatistics(
        prompt=prompt,
        runs=count,
        finished=sum(run.finished for run in runs) / count,
        expected=sum(run.expected for run in runs) / count,
        unresolved=sum(run.unresolved for run in runs) / count,
        rounds=sum(run.rounds for run in runs) / count,
        tokens=sum(run.tokens for run in runs) / count,
        win_rate=points / met if met else None,
        met=met,
    )

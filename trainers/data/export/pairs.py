"""Preference pairs: corrections within an episode, and members of a rollout group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fathom.api.planner.v1.trajectory_pb2 import TOOL_STATUS_INVALID, Step, Trajectory
from fathom.trainers.data.export.conversation import Conversation, Said, conversations, own_words

FINISH = "finish"


@dataclass(frozen=True)
class Pair:
    """Two continuations of the same messages; ``why`` says why the chosen one is better."""

    conversation: Conversation
    """The messages before the two continuations."""
    chosen: Said
    rejected: Said
    why: str


def pairs(trajectories: Sequence[Trajectory], margin: float) -> Iterator[Pair]:
    """Yield pairs from corrections within an episode, and from group members whose rewards differ by ``margin``."""
    for trajectory in trajectories:
        yield from corrections(trajectory)
    yield from siblings(trajectories, margin)


def corrections(trajectory: Trajectory) -> Iterator[Pair]:
    """Yield pairs within an episode: a malformed call and its correction, a rejected answer and the next one.

    Both sides follow the same messages; the error message between them is not part of the pair.
    """
    for conversation in conversations(trajectory, keep_failed=True):
        for first, second in pairwise(conversation.steps):
            why = correction_reason(first, second)
            if why:
                place = next(n for n, item in enumerate(conversation.said) if item.step == first.index)
                before = conversation.before(place)
                rejected, chosen = (Said(own_words(step), True, step.index) for step in (first, second))
                yield Pair(before, chosen, rejected, why)


def correction_reason(first: Step, second: Step) -> str:
    """Return why the second step is better than the first; "" when that is not known."""
    if not first.completion.tool_calls or not second.completion.tool_calls:
        return ""
    names = (first.completion.tool_calls[0].name, second.completion.tool_calls[0].name)
    if len(set(names)) > 1 or own_words(first) == own_words(second):
        return ""
    # Two calls of finish in a row: the first answer was refused, for the run would have ended with it.
    if names[0] == FINISH:
        return "the answer was sent back"
    bad = bool(first.tool_results) and all(result.status == TOOL_STATUS_INVALID for result in first.tool_results)
    good = any(result.status != TOOL_STATUS_INVALID for result in second.tool_results)
    return "the call was malformed" if bad and good else ""


def siblings(trajectories: Sequence[Trajectory], margin: float) -> Iterator[Pair]:
    """Yield the best and worst episode of each rollout group, from the first differing message on.

    Episodes of a group have the same question and prompts. Pairs are taken from the part before the first compaction.
    """
    groups: dict[tuple[str, str, int], list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        if trajectory.steps:
            groups[trajectory.run_id.rsplit("-", 1)[0], trajectory.question, trajectory.task_index].append(trajectory)
    for group in groups.values():
        best, worst = (choose(group, key=lambda item: item.reward) for choose in (max, min))
        # A small difference may be noise of the grader, and the pair would teach it.
        if best.reward - worst.reward < margin:
            continue
        if pair := part_of(best, worst, f"reward {best.reward:g} over {worst.reward:g}"):
            yield pair


def part_of(best: Trajectory, worst: Trajectory, why: str) -> Pair | None:
    """Return the pair from the first differing message on; None when a model wrote not both of these messages."""
    better, worse = conversations(best, keep_failed=True)[0], conversations(worst, keep_failed=True)[0]
    for place, (one, other) in enumerate(zip(better.said, worse.said, strict=False)):
        if one.message != other.message:
            return Pair(better.before(place), one, other, why) if one.step >= 0 and other.step >= 0 else None
    return None

"""Selection of recorded episodes: success for SFT, pairs for DPO, exact ids and log-probabilities for PPO."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FINISHED, TOOL_STATUS_INVALID, Step, Trajectory
from fathom.core.errors import FathomError
from fathom.trainers.data.export.conversation import Conversation, Said, conversations, own_words

FINISH = "finish"
# What a user may have said of a person; digits of tables are never touched, for only users' words are scrubbed.
PERSONAL = (
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<email>"),
    # Order matters: an identity number of 18 digits would match as a card number, and a card number as telephones.
    (re.compile(r"(?<!\d)\d{17}[\dXx](?!\d)"), "<id number>"),
    (re.compile(r"(?<!\d)\d{4}(?:[ -]?\d{4}){3}(?:[ -]?\d{1,3})?(?!\d)"), "<card number>"),
    # With or without a country code: +86 13812345678, 010-1234-5678, 555 123 4567.
    (re.compile(r"(?<!\d)(?:\+\d{1,3}[ -]?)?(?:1[3-9]\d{9}|\d{3,4}[ -]\d{3,4}[ -]\d{4})(?!\d)"), "<phone>"),
)


class NotTrainable(FathomError):
    """An episode lacks something the algorithm needs; ``run_id`` and ``field`` in the metadata name it."""

    code, reason = "FAILED_PRECONDITION", "FAILED_PRECONDITION"

    def __init__(self, run_id: str, field: str, message: str) -> None:
        super().__init__(f"{run_id}: {message}", metadata={"run_id": run_id, "field": field})
        self.field = field


@dataclass(frozen=True)
class Pair:
    """Two continuations of the same messages; ``why`` says why the chosen one is better."""

    conversation: Conversation
    """The messages before the two continuations."""
    chosen: Said
    rejected: Said
    why: str


def redact_personal_data(text: str) -> str:
    """Replace e-mail addresses and telephone, identity and card numbers by placeholders."""
    for pattern, name in PERSONAL:
        text = pattern.sub(name, text)
    return text


def successful(trajectory: Trajectory, least: float) -> bool:
    """Return whether an episode finished with a correct answer.

    Graded episodes are judged by their reward, ungraded ones by an answer without findings.
    """
    if trajectory.stop_reason != STOP_REASON_FINISHED or not trajectory.HasField("answer"):
        return False
    if not trajectory.answer.markdown.strip():
        return False
    # Users' runs have no references and hence no reward; the verifier's findings are what is known of them.
    graded = trajectory.lane != common.LANE_INTERACTIVE
    return trajectory.reward >= least if graded else not trajectory.answer.findings


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
                before = replace(conversation, said=conversation.said[:place])
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
        if trajectory.lane != common.LANE_INTERACTIVE and trajectory.steps:
            groups[trajectory.run_id.rsplit("-", 1)[0], trajectory.question, trajectory.task_index].append(trajectory)
    for group in groups.values():
        best, worst = (choose(group, key=lambda item: item.reward) for choose in (max, min))
        # A small difference may be noise of the grader, and the pair would teach it.
        if best.reward - worst.reward < margin:
            continue
        better, worse = conversations(best, keep_failed=True)[0], conversations(worst, keep_failed=True)[0]
        for place, (one, other) in enumerate(zip(better.said, worse.said, strict=False)):
            if one.message != other.message:
                if one.step >= 0 and other.step >= 0:
                    before = replace(better, said=better.said[:place])
                    yield Pair(before, one, other, f"reward {best.reward:g} over {worst.reward:g}")
                break


def for_policy_gradient(trajectory: Trajectory, model: str) -> Trajectory:
    """Return the trajectory if PPO can use it: exact ids and finite log-probabilities of this model.

    Raises ``NotTrainable`` naming run and field.
    """
    if not trajectory.exact:
        raise NotTrainable(trajectory.run_id, "exact", "has no exact token ids and log-probabilities: not for PPO")
    for step in trajectory.steps:
        where, completion = f"steps[{step.index}].completion", step.completion
        if completion.model != model:
            raise NotTrainable(
                trajectory.run_id, f"{where}.model", f"was sampled by {completion.model!r}, not {model!r}"
            )
        if not completion.log_probs or len(completion.log_probs) != len(completion.sampled_token_ids):
            raise NotTrainable(
                trajectory.run_id, f"{where}.log_probs", "are not there for each sampled id: not for PPO"
            )
        if not all(math.isfinite(value) for value in completion.log_probs):
            raise NotTrainable(trajectory.run_id, f"{where}.log_probs", "are not all finite")
    return trajectory

"""Preferences and references from users' judgements of answers."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1.trajectory_pb2 import PROTOCOL_SEARCH_R1, Trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import FathomError
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.trainers.data.export.conversation import Said, conversations
from fathom.trainers.data.export.pairs import FINISH, Pair, part_of

Judgements = Mapping[str, memory.Feedback]
"""The last judgement of each run, by its id."""
# What an answer refers to in a run: citations such as [2] and [1, 3], and places such as {{table:sheet_1}}.
REFERENCE = re.compile(r"\[\d{1,3}(?:\s*[,，]\s*\d{1,3})*\](?!\()|\{\{[^{}\n]*\}\}")
ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"


class UnusableEdit(FathomError):
    """An edited answer cannot stand in the place of the model's words; the message says why."""

    code, reason = "FAILED_PRECONDITION", "FAILED_PRECONDITION"


def preferences(runs: Sequence[Trajectory], judged: Judgements) -> Iterator[Pair | None]:
    """Yield pairs of a helpful and an unhelpful answer to one question, from the first differing message on.

    None stands for two answers that do not follow the same messages, which no pair can say anything of.
    """
    asked: dict[tuple[str, int], list[Trajectory]] = defaultdict(list)
    for run in runs:
        if run.run_id in judged and run.steps:
            asked[run.understood or run.question, run.protocol].append(run)
    for answers in asked.values():
        helpful = [run for run in answers if is_liked(judged[run.run_id])]
        for worse in (run for run in answers if not judged[run.run_id].helpful):
            # One pair for each that was disliked, with the newest liked one: all combinations would count a
            # question by the square of its answers.
            if helpful:
                newest = max(helpful, key=lambda run: judged[run.run_id].create_time.ToNanoseconds())
                yield part_of(newest, worse, "its user preferred the answer")


def is_liked(judgement: memory.Feedback) -> bool:
    """Return whether a user took the answer as it was."""
    return judgement.helpful and not judgement.edited_answer


def pair_edit(run: Trajectory, answer: str, why: str = "its user edited the answer") -> Pair:
    """Return the pair of a better answer and the model's own; raise ``UnusableEdit``."""
    conversation = conversations(run, keep_failed=True)[-1]
    last = conversation.said[-1]
    chosen = Said(with_answer(last.message, answer, run.protocol == PROTOCOL_SEARCH_R1), True, last.step)
    before = conversation.before(len(conversation.said) - 1)
    return Pair(before, chosen, Said(last.message, True, last.step), why)


def with_answer(message: policy.Message, answer: str, tagged: bool) -> policy.Message:
    """Return the model's last message with another answer; raise ``UnusableEdit``."""
    copy = policy.Message()
    copy.CopyFrom(message)
    for call in copy.tool_calls:
        if call.name == FINISH:
            arguments = read_arguments(call.arguments_json)
            require_known_references(answer, str(arguments.get("answer", "")))
            arguments["answer"] = answer
            call.arguments_json = json.dumps(arguments, ensure_ascii=False)
            # Models that write calls as text have it in their words as well.
            prose, written = parse_tool_calls(message.content)
            if written:
                body = [format_tool_call(item.name, read_arguments(item.arguments_json)) for item in copy.tool_calls]
                copy.content = "\n".join([*([prose] if prose else []), *body])
            return copy
    before, opened, rest = message.content.rpartition(ANSWER_OPEN)
    if tagged and opened:
        own, _, after = rest.partition(ANSWER_CLOSE)
        require_known_references(answer, own)
        copy.content = f"{before}{ANSWER_OPEN}{answer}{ANSWER_CLOSE}{after}"
        return copy
    require_known_references(answer, message.content)
    copy.content = answer
    return copy


def read_arguments(arguments_json: str) -> dict[str, object]:
    """Return the arguments of a call; raise ``UnusableEdit`` for what is no JSON object."""
    try:
        found = json.loads(arguments_json)
    except ValueError as error:
        raise UnusableEdit("the model's last call cannot be read") from error
    if not isinstance(found, dict):
        raise UnusableEdit("the model's last call cannot be read")
    return found


def require_known_references(answer: str, own: str) -> None:
    """Raise ``UnusableEdit`` for a citation or a place that the model's own text does not have.

    Users edit the answer as it is shown, in which figures have become places that no model writes.
    """
    if unknown := set(REFERENCE.findall(answer)) - set(REFERENCE.findall(own)):
        raise UnusableEdit(f"the edited answer refers to {min(unknown)}, which the model's own text does not have")

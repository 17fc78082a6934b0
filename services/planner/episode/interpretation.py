"""Interpretation of a completion for a user's run: calls, an answer, the part of one, or nothing.

Trainers' episodes and tag protocols keep the strict dialogue of ``dialogue``: there prose is corrected once, and what a
limit cuts off counts as it is, since a reward must depend on what the model sampled and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.chat.messages import Completion, Message, Role, ToolCall
from fathom.services.planner.answering.parsing import Citation, FigureBlock, Reference, parse
from fathom.services.planner.episode.continuation import (
    MAX_CONTINUATIONS,
    collect_parts,
    describe_limit,
    has_complete_arguments,
    is_cut,
    join_parts,
    read_partial_answer,
    request_rest,
)
from fathom.services.planner.episode.dialogue import FINISH, Decision, read_finish_argument
from fathom.services.planner.episode.progress import is_empty, is_filtered
from fathom.services.planner.model.episode import Step

CITE = (
    "That names no source. If it was your answer, call `finish` with it, with its [n] after each statement; otherwise"
    " call the next tool."
)
EMPTY = "Your reply was empty: call a tool, or `finish` with what is known and what is missing."
FILTERED = "Your reply was withheld by a content filter: go on in other words, or `finish` with what is known."


@dataclass(frozen=True)
class Situation:
    """State on which the meaning of a completion depends, besides its text."""

    steps: Sequence[Step]
    """Earlier rounds."""
    asked: Sequence[Message]
    """Messages that opened this round."""
    is_last: bool
    has_sources: bool
    """True when there is material that an answer could cite."""

    @property
    def was_asked_to_cite(self) -> bool:
        return any(message.content.startswith(CITE) for message in self.asked)


def interpret(completion: Completion, situation: Situation) -> Decision:
    """Return what a completion asks for; ``finish`` ends the episode as the first call, or anywhere in a last round."""
    if is_empty(completion):
        return Decision(correction=Message(Role.USER, describe_empty(completion)))
    calls = completion.tool_calls
    if is_cut(completion) and not (calls and has_complete_arguments(calls[-1])):
        return interpret_cut(completion, situation)
    parts = collect_parts(situation.steps, situation.asked)
    if calls:
        end = find_end(calls, situation.is_last)
        answer = None if end is None else read_finish_argument(end.arguments_json)
        if answer is None:
            return Decision(calls=calls)
        unmade = tuple(call for call in calls if call is not end)
        return Decision(answer=join_parts([*parts, answer]), end=end, unmade=unmade)
    text = completion.text.strip()
    # A sentence about what comes next is no answer. It names no source, as an answer does once there are sources.
    if parts or situation.is_last or situation.was_asked_to_cite or not situation.has_sources or has_source(text):
        return Decision(answer=join_parts([*parts, text]), is_cut=is_filtered(completion))
    return Decision(correction=Message(Role.USER, CITE))


def interpret_cut(completion: Completion, situation: Situation) -> Decision:
    """Return a request for the rest of a cut answer, the answer as it is after enough of these, or the cut call."""
    calls, part = completion.tool_calls, read_partial_answer(completion)
    # Behind other calls of its round ``finish`` ends nothing, and only the last call of a reply can be cut.
    if not part or len(calls) > 1:
        if calls:
            return Decision(calls=calls, cut=calls[-1])
        said = f"Your call was cut off{describe_limit(completion)}, the limit of one reply: make it again, shorter."
        return Decision(correction=Message(Role.USER, said))
    parts = [*collect_parts(situation.steps, situation.asked), part]
    if len(parts) > MAX_CONTINUATIONS or situation.is_last:
        return Decision(answer=join_parts(parts), is_cut=True, end=calls[0] if calls else None)
    return Decision(correction=request_rest(parts, completion))


def find_end(calls: Sequence[ToolCall], is_last: bool) -> ToolCall | None:
    """Return the call that ends the episode, if any."""
    # Behind other calls it was written without having seen their results, which nobody will see after a last round.
    allowed = calls if is_last else calls[:1]
    return next((call for call in allowed if call.name == FINISH), None)


def has_source(text: str) -> bool:
    """Return whether a text cites material or places a table or a figure."""
    return any(isinstance(event, Citation | Reference | FigureBlock) for event in parse(text))


def describe_empty(completion: Completion) -> str:
    """Return what the model is told after a reply without text and calls."""
    if is_filtered(completion):
        return FILTERED
    if is_cut(completion):
        return f"Your reply was cut off{describe_limit(completion)} before it said anything: think less, then act."
    return EMPTY


def describe_cut_call(completion: Completion) -> str:
    """Return the error of a call whose arguments a limit has cut off."""
    return (
        f"your call was cut off{describe_limit(completion)}, the limit of one reply, and was not made: make it shorter,"
        " e.g. in several calls"
    )

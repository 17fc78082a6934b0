"""Answers that a limit has cut off: reading the part that arrived, asking for the rest, joining the parts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fathom.core.errors import InvalidField
from fathom.domain.chat.drafts import ArgumentDraft, written_head
from fathom.domain.chat.hermes import OPEN
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, ToolCall
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.model.episode import Step
from fathom.services.planner.tools.arguments import read_arguments
from fathom.services.planner.tools.think import Finish

MAX_CONTINUATIONS = 2
"""Times that a model is asked for the rest of one answer: with a usual limit that is the length of a long report, and
a model that is still not done then mostly repeats itself."""
CUT_OFF = "Your answer was cut off"
# The model repeats these words, so that the join does not depend on where a token ended.
ANCHOR_CHARS = 60
# A shorter overlap may be chance, as of "the"; a longer one than a page is no longer a repetition of the last words.
MIN_OVERLAP, MAX_OVERLAP = 8, 4_000
# A continuation that begins as the answer did is the whole answer once more.
RESTART_CHARS = 80


def is_cut(completion: Completion) -> bool:
    """Return whether sampling ended at the limit of tokens."""
    return completion.finish_reason is FinishReason.LENGTH


def has_complete_arguments(call: ToolCall) -> bool:
    """Return whether the arguments of a call can be read, so that a limit has not cut them."""
    try:
        read_arguments(call)
    except InvalidField:
        return False
    return True


def read_partial_answer(completion: Completion) -> str:
    """Return the answer as far as it arrived in a cut completion; "" when it was cut in something else."""
    calls = completion.tool_calls
    if calls:
        return read_partial_finish(written_head(calls[0].name) + calls[0].arguments_json)
    # A call written as text is not parsed before it is complete.
    if OPEN in completion.text:
        return read_partial_finish(completion.text)
    return completion.text.strip()


def read_partial_finish(written: str) -> str:
    """Return the beginning of the answer in an unfinished ``finish`` call; "" for another tool's."""
    return ArgumentDraft(Finish.name, "answer").feed(written).strip()


def collect_parts(steps: Sequence[Step], asked: Sequence[Message]) -> list[str]:
    """Return the parts of an answer before the round that ``asked`` opened, oldest first; [] when it asked no rest."""
    parts: list[str] = []
    for step in reversed(steps):
        if not any(CUT_OFF in message.content for message in asked):
            break
        parts.append(read_partial_answer(step.completion))
        asked = step.new_messages
    return parts[::-1]


def request_rest(parts: Sequence[str], completion: Completion) -> Message:
    """Return the request for the rest of an answer, as the result of the ``finish`` call where there is one."""
    end = find_anchor(join_parts(parts))
    calls = completion.tool_calls
    how = "call `finish` with the rest only" if calls or OPEN in completion.text else "write the rest only"
    said = (
        f"{CUT_OFF}{describe_limit(completion)}, the limit of one reply. What you wrote is kept: {how}, beginning with"
        f" its last words, which are «{end}». Be brief, so that it ends within the limit."
    )
    if not calls:
        return Message(Role.USER, neutral(said))
    content = json.dumps({"tool": Finish.name, "status": "cut", "error": said}, ensure_ascii=False)
    return Message(Role.TOOL, neutral(content), tool_call_id=calls[0].id)


def describe_limit(completion: Completion) -> str:
    """Return where a completion was cut, as " at 4,096 tokens"; "" when the endpoint did not count."""
    tokens = completion.usage.completion_tokens
    return f" at {tokens:,} tokens" if tokens else ""


def find_anchor(text: str) -> str:
    """Return the last words of a text on one line, from the beginning of a word where there are spaces."""
    tail = text[-ANCHOR_CHARS:].rpartition("\n")[2] or text[-ANCHOR_CHARS:]
    head, space, rest = tail.partition(" ")
    return rest if space and len(tail) == ANCHOR_CHARS and len(head) < ANCHOR_CHARS // 2 else tail


def join_parts(parts: Sequence[str]) -> str:
    """Return the whole text of an answer that came in parts, without what a part repeats of the one before."""
    whole = ""
    for part in parts:
        whole = join_two(whole, part)
    return whole


def join_two(first: str, rest: str) -> str:
    """Join a text and its continuation, which may repeat the end of the text, or all of it."""
    if not first or not rest:
        return first or rest
    opening = first[:RESTART_CHARS]
    if len(opening) == RESTART_CHARS and rest.startswith(opening):
        return rest
    # The longest overlap, since a shorter one may lie inside of it.
    longest = min(len(first), len(rest), MAX_OVERLAP)
    for size in range(longest, MIN_OVERLAP - 1, -1):
        if first.endswith(rest[:size]):
            return first + rest[size:]
    # A model that does not repeat the last words mostly goes on with the next one.
    between = " " if is_latin(first[-1]) and is_latin(rest[0]) else ""
    return f"{first}{between}{rest}"


def is_latin(character: str) -> bool:
    """Return whether a character belongs to a script that puts spaces between words; 0x2E80 begins ideographs."""
    return character.isalnum() and ord(character) < 0x2E80

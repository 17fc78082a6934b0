"""Shorter thinking before training (row Z04): of each thought only the sentences that what follows makes use of.

An operator on rows of ``fathom export sft``. Thoughts are what stands between think tags and what the ``think`` tool
is told. Nothing is rewritten: sentences are kept or dropped, so that no new claim can come in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.errors import InvalidField

Counter = Callable[[str], Awaitable[int]]
"""Tokens of a text by the tokenizer of the model that will learn."""
THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
# A point ends a sentence only before a blank: "27.3" and "AAPL.close_adj" are whole.
SENTENCE = re.compile(r"(?:[^。！？.!?\n]|[.!?](?=[^\s.!?]))+[。！？.!?\n]*")
WORD = re.compile(r"[\u4e00-\u9fff]|[a-z]+|\d+(?:[.,]\d+)*%?")
# Words that say nothing of a thought's matter.
FILLERS = (
    "a an and are as at be but by do for from has have i if in is it its let me my now of ok okay on or so that the"
    " then there this to was we well what will with 的 了 是 我 在 和 就 也 都 要 这 那 吧 呢 一 个 有"
)
EMPTY = frozenset(FILLERS.split())
SAME = 0.8


@dataclass
class Lengths:
    """Tokens of thoughts before and after, one entry per thought."""

    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    def add(self, before: int, after: int) -> None:
        self.before.append(before)
        self.after.append(after)

    def table(self) -> dict[str, dict[str, float]]:
        """Number, sum, mean, median, 95th percentile and largest of both, in tokens; and the ratio of the sums."""
        found = {"before": spread(self.before), "after": spread(self.after)}
        found["ratio"] = {"sum": found["after"]["sum"] / found["before"]["sum"] if sum(self.before) else 1.0}
        return found


def spread(values: Sequence[int]) -> dict[str, float]:
    """How lengths are distributed; percentiles are values that occur."""
    ordered = sorted(values) or [0]
    place = [int(share * (len(ordered) - 1) + 0.5) for share in (0.5, 0.95)]
    return {
        "thoughts": float(len(values)),
        "sum": float(sum(values)),
        "mean": sum(values) / len(values) if values else 0.0,
        "p50": float(ordered[place[0]]),
        "p95": float(ordered[place[1]]),
        "max": float(ordered[-1]),
    }


async def compress_row(row: Mapping[str, Any], budget: int, count: Counter, lengths: Lengths) -> dict[str, Any]:
    """The row with thoughts of at most ``budget`` tokens (a single sentence may be longer).

    Ids that no longer fit the messages are left out. Raises ``InvalidField`` for a budget below 1.
    """
    if budget < 1:
        raise InvalidField("budget", f"{budget} must be at least 1")
    messages = [dict(message) for message in row["messages"]]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            later = "\n".join(said_by(other) for other in messages[place + 1 :] if other["role"] == "assistant")
            messages[place] = await compress_message(message, later, budget, count, lengths)
    if messages == list(row["messages"]):
        return dict(row)
    stale = ("token_ids", "loss_mask", "exact")
    return {name: value for name, value in row.items() if name not in stale} | {"messages": messages}


async def compress_message(
    message: dict[str, Any], later: str, budget: int, count: Counter, lengths: Lengths
) -> dict[str, Any]:
    """One message with its thoughts compressed; used is what it says beside them, and what is said ``later``."""
    content = str(message["content"])
    spoken = THINK.sub("", content)
    calls = [dict(call) for call in message.get("tool_calls", ())]
    used = "\n".join([spoken, *(str(call["function"]["arguments"]) for call in calls if not thinks(call)), later])
    for match in reversed(list(THINK.finditer(content))):
        short = await compressed(match.group(1), used, budget, count, lengths)
        content = f"{content[: match.start(1)]}{short}{content[match.end(1) :]}"
    for place, call in enumerate(calls):
        if thinks(call):
            calls[place] = await compress_call(call, used, budget, count, lengths)
    return message | {"content": content} | ({"tool_calls": calls} if calls else {})


async def compress_call(
    call: dict[str, Any], used: str, budget: int, count: Counter, lengths: Lengths
) -> dict[str, Any]:
    """A call of ``think`` with less content; one whose arguments cannot be read stays as it is."""
    try:
        arguments = json.loads(call["function"]["arguments"])
        content = str(arguments["content"])
    except (ValueError, KeyError, TypeError):
        return call
    arguments["content"] = await compressed(content, used, budget, count, lengths)
    return call | {"function": call["function"] | {"arguments": json.dumps(arguments, ensure_ascii=False)}}


async def compressed(text: str, used: str, budget: int, count: Counter, lengths: Lengths) -> str:
    """The sentences of ``text`` that share most with ``used``, in their order, within ``budget`` tokens."""
    before = await count(text)
    if before <= budget:
        lengths.add(before, before)
        return text
    sentences = distinct(part.strip() for part in SENTENCE.findall(text) if part.strip())
    sizes = [await count(sentence) for sentence in sentences]
    wanted = terms(used)
    order = sorted(range(len(sentences)), key=lambda place: (-worth(sentences[place], wanted, sizes[place]), place))
    kept: list[int] = []
    room = budget
    for place in order:
        useful = worth(sentences[place], wanted, sizes[place]) > 0
        if not kept or (useful and sizes[place] <= room):
            kept.append(place)
            room -= sizes[place]
    joint = "" if sum(map(chinese, sentences)) * 2 > len(sentences) else " "
    short = joint.join(sentences[place] for place in sorted(kept))
    lengths.add(before, await count(short))
    return short


def worth(sentence: str, wanted: frozenset[str], size: int) -> float:
    """How much of what follows a sentence holds, per root of its length: numbers count three times."""
    shared = terms(sentence) & wanted
    return sum(3.0 if term[0].isdigit() else 1.0 for term in shared) / math.sqrt(max(1, size))


def terms(text: str) -> frozenset[str]:
    """Words, Chinese characters and numbers that mean something."""
    return frozenset(WORD.findall(text.lower())) - EMPTY


def distinct(sentences: Any) -> list[str]:
    """Without sentences that say nearly what an earlier one said."""
    found: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        own = terms(sentence)
        if not any(own and len(own & other) >= SAME * len(own | other) for _, other in found):
            found.append((sentence, own))
    return [sentence for sentence, _ in found]


def thinks(call: Mapping[str, Any]) -> bool:
    return bool(call["function"]["name"] == "think")


def said_by(message: Mapping[str, Any]) -> str:
    """What a message does: its words without thoughts, and its calls that are no thoughts."""
    calls = (call["function"]["arguments"] for call in message.get("tool_calls", ()) if not thinks(call))
    return "\n".join([THINK.sub("", str(message["content"])), *calls])


def chinese(text: str) -> bool:
    return bool(re.search(r"[\u4e00-\u9fff]", text))

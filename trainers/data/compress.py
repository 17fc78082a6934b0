"""Extractive compression of thoughts before training: keep the sentences that later text makes use of.

Operates on rows of ``fathom export sft``. Thoughts are the text between think tags and the arguments of the ``think``
tool. Sentences are kept or dropped, never rewritten, so that no new claim can appear.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.text.scripts import HAN, HAN_CHARACTER
from fathom.domain.text.stop_words import FUNCTION_WORDS

Counter = Callable[[str], Awaitable[int]]
"""Counts a text's tokens with the tokenizer of the model to be trained."""
THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
# A point ends a sentence only before a blank: "27.3" and "AAPL.close_adj" are whole.
SENTENCE = re.compile(r"(?:[^。！？.!?\n]|[.!?](?=[^\s.!?]))+[。！？.!?\n]*")
WORD = re.compile(rf"[{HAN}]|[a-z]+|\d+(?:[.,]\d+)*%?")
# Words that say nothing of a thought's matter.
FILLERS = "but do i if let me my now ok okay so we well what 的 了 是 我 在 和 就 也 都 要 这 那 吧 呢 一 个 有"
EMPTY = FUNCTION_WORDS | frozenset(FILLERS.split())
# At four fifths of their terms in common, the second of two sentences adds next to nothing to the first.
SAME = 0.8


@dataclass
class Lengths:
    """Tokens of thoughts before and after compression, one entry per thought."""

    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    def add(self, before: int, after: int) -> None:
        self.before.append(before)
        self.after.append(after)

    def table(self) -> dict[str, dict[str, float]]:
        """Return statistics of both lists, in tokens, and the ratio of their sums.

        Statistics: count, sum, mean, median, 95th percentile, maximum.
        """
        found = {"before": spread(self.before), "after": spread(self.after)}
        found["ratio"] = {"sum": found["after"]["sum"] / found["before"]["sum"] if sum(self.before) else 1.0}
        return found


def spread(values: Sequence[int]) -> dict[str, float]:
    """Summarise a distribution of lengths; percentiles are values that occur."""
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
    """Return the row with thoughts of at most ``budget`` tokens (a single longer sentence is kept).

    Token ids that no longer match the messages are removed. Raises ``InvalidField`` for a budget below 1.
    """
    if budget < 1:
        raise InvalidField("budget", f"{budget} must be at least 1")
    messages = [dict(message) for message in row["messages"]]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            later = "\n".join(texts_by_role(other) for other in messages[place + 1 :] if other["role"] == "assistant")
            messages[place] = await compress_message(message, later, budget, count, lengths)
    if messages == list(row["messages"]):
        return dict(row)
    # They belong to the words as they were: training on them would teach what has been cut.
    stale = ("token_ids", "loss_mask", "exact")
    return {name: value for name, value in row.items() if name not in stale} | {"messages": messages}


async def compress_message(
    message: dict[str, Any], later: str, budget: int, count: Counter, lengths: Lengths
) -> dict[str, Any]:
    """Compress the thoughts of one message.

    Sentences are rated against the message's other text and calls, and against everything said ``later``.
    """
    content = str(message["content"])
    spoken = THINK.sub("", content)
    calls = [dict(call) for call in message.get("tool_calls", ())]
    # A thought was of use where its terms come back: in what was said, in the calls, or in a later message.
    used = "\n".join([spoken, *(str(call["function"]["arguments"]) for call in calls if not thinks(call)), later])
    # From the end, so that the places of those before stay right.
    for match in reversed(list(THINK.finditer(content))):
        short = await compress_text(match.group(1), used, budget, count, lengths)
        content = f"{content[: match.start(1)]}{short}{content[match.end(1) :]}"
    for place, call in enumerate(calls):
        if thinks(call):
            calls[place] = await compress_call(call, used, budget, count, lengths)
    return message | {"content": content} | ({"tool_calls": calls} if calls else {})


async def compress_call(
    call: dict[str, Any], used: str, budget: int, count: Counter, lengths: Lengths
) -> dict[str, Any]:
    """Compress the content of a ``think`` call; unreadable arguments are left unchanged."""
    try:
        arguments = json.loads(call["function"]["arguments"])
        content = str(arguments["content"])
    except (ValueError, KeyError, TypeError):
        return call
    arguments["content"] = await compress_text(content, used, budget, count, lengths)
    return call | {"function": call["function"] | {"arguments": json.dumps(arguments, ensure_ascii=False)}}


async def compress_text(text: str, used: str, budget: int, count: Counter, lengths: Lengths) -> str:
    """Keep the sentences of ``text`` that share most terms with ``used``, in their order, within ``budget`` tokens.

    Records the lengths before and after in ``lengths``.
    """
    before = await count(text)
    if before <= budget:
        lengths.add(before, before)
        return text
    sentences = distinct(part.strip() for part in SENTENCE.findall(text) if part.strip())
    sizes = [await count(sentence) for sentence in sentences]
    wanted = terms(used)
    # The place breaks ties, so that equal input gives equal output.
    order = sorted(range(len(sentences)), key=lambda place: (-worth(sentences[place], wanted, sizes[place]), place))
    kept: list[int] = []
    room = budget
    for place in order:
        useful = worth(sentences[place], wanted, sizes[place]) > 0
        # One sentence stays in any case: an empty thought would teach not to think at all.
        if not kept or (useful and sizes[place] <= room):
            kept.append(place)
            room -= sizes[place]
    # Chinese sentences follow each other without a blank.
    joint = "" if sum(map(chinese, sentences)) * 2 > len(sentences) else " "
    short = joint.join(sentences[place] for place in sorted(kept))
    lengths.add(before, await count(short))
    return short


def worth(sentence: str, wanted: frozenset[str], size: int) -> float:
    """Rate a sentence by the terms it shares with ``wanted``, over the square root of its length in tokens.

    Numbers count three times.
    """
    shared = terms(sentence) & wanted
    return sum(3.0 if term[0].isdigit() else 1.0 for term in shared) / math.sqrt(max(1, size))


def terms(text: str) -> frozenset[str]:
    """Return the words, Chinese characters and numbers of a text, without stop words."""
    return frozenset(WORD.findall(text.lower())) - EMPTY


def distinct(sentences: Any) -> list[str]:
    """Remove sentences that nearly repeat an earlier one (Jaccard similarity of their terms at least ``SAME``)."""
    found: list[tuple[str, frozenset[str]]] = []
    for sentence in sentences:
        own = terms(sentence)
        # A sentence of stop words alone has no terms, and repeats nothing.
        if not any(own and len(own & other) >= SAME * len(own | other) for _, other in found):
            found.append((sentence, own))
    return [sentence for sentence, _ in found]


def thinks(call: Mapping[str, Any]) -> bool:
    return bool(call["function"]["name"] == "think")


def texts_by_role(message: Mapping[str, Any]) -> str:
    """Return a message's text without thoughts, followed by the arguments of its calls other than ``think``."""
    calls = (call["function"]["arguments"] for call in message.get("tool_calls", ()) if not thinks(call))
    return "\n".join([THINK.sub("", str(message["content"])), *calls])


def chinese(text: str) -> bool:
    return HAN_CHARACTER.search(text) is not None

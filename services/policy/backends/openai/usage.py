"""Usage of a request: as the endpoint reports it, else estimated from the text; and its cost."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fathom.domain.chat.messages import Usage
from fathom.services.policy.config import TokenPrices

# Upper estimates of tokens per character, as byte-level vocabularies cut running text: English takes a quarter per
# letter, digits and signs up to one each, other alphabets up to one, Chinese up to one and rare characters up to three.
LETTERS, DIGITS, SIGNS, ALPHABETS, HAN, OTHERS = 0.34, 1.0, 1.0, 1.0, 1.5, 3.0
CLASSES = (
    (re.compile(r"[A-Za-z \n]"), LETTERS),
    (re.compile(r"[0-9]"), DIGITS),
    (re.compile(r"[!-/:-@\[-`{-~\t]"), SIGNS),
    (re.compile(r"[\u0080-\u2fff]"), ALPHABETS),
    (re.compile(r"[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"), HAN),
)
TURN_TOKENS = 8
"""Estimated tokens of a message beside its text."""


def read_usage(chunk: Mapping[str, Any]) -> Usage | None:
    """Return the usage that a chunk reports; None where it reports none, or only zeros."""
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    # Kimi reports with the last choice, Groq in a field of its own.
    groq = chunk.get("x_groq")
    found = chunk.get("usage") or choice.get("usage") or (groq.get("usage") if isinstance(groq, Mapping) else None)
    if not isinstance(found, Mapping):
        return None
    prompt, completion = count(found, "prompt_tokens"), count(found, "completion_tokens")
    if not prompt and not completion:
        return None
    # OpenAI; DeepSeek; Kimi.
    cached = (
        count(found.get("prompt_tokens_details"), "cached_tokens")
        or count(found, "prompt_cache_hit_tokens")
        or count(found, "cached_tokens")
    )
    reasoning = count(found.get("completion_tokens_details"), "reasoning_tokens") or count(found, "reasoning_tokens")
    return Usage(prompt, completion, min(cached, prompt), reasoning_tokens=reasoning)


def count(counts: Any, name: str) -> int:
    """Return a count of tokens; 0 where it is missing or not a number."""
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return max(0, int(value)) if isinstance(value, int | float) and math.isfinite(value) else 0


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of the tokens of running text."""
    rest, total = len(text), 0.0
    for pattern, share in CLASSES:
        found = len(pattern.findall(text))
        rest, total = rest - found, total + found * share
    return math.ceil(total + rest * OTHERS)


def compute_cost(usage: Usage, prices: TokenPrices | None) -> float:
    """Return the cost of a request; 0 without prices."""
    if prices is None:
        return 0.0
    cached_price = prices.prompt if prices.cached_prompt is None else prices.cached_prompt
    prompt = (usage.prompt_tokens - usage.cached_tokens) * prices.prompt + usage.cached_tokens * cached_price
    return (prompt + usage.completion_tokens * prices.completion) / 1e6

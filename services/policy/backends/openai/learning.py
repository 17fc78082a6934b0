"""Fields of requests that an endpoint refuses, learned from its own words, for models that are in no table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.services.policy.backends.openai.errors import describe, read_error
from fathom.services.policy.backends.openai.families import BLANK_THOUGHT
from fathom.services.policy.backends.openai.request import fill

# A request without these is another request.
ESSENTIAL = frozenset({"model", "messages", "stream", "tools"})
LENGTH_LIMITS = ("max_tokens", "max_completion_tokens")
MESSAGE_ESSENTIAL = frozenset({"role", "content", "tool_calls", "tool_call_id"})
MAX_LEARNED = 32
"""Corrections remembered per model; an endpoint that refuses more is not one that this is made for."""


@dataclass(frozen=True)
class Correction:
    """One change of requests: a field dropped, or renamed to ``to``; of messages where ``of_messages`` is set.

    ``fill`` adds a blank value to messages with calls that lack the field, in place of dropping it.
    """

    name: str
    to: str = ""
    of_messages: bool = False
    fill: bool = False

    def __str__(self) -> str:
        where = "of messages" if self.of_messages else "of requests"
        change = f"renamed to {self.to}" if self.to else "filled where missing" if self.fill else "dropped"
        return f"{self.name} {where} {change}"


@dataclass
class LearnedFields:
    """Corrections for one model, remembered as long as the process lives."""

    corrections: list[Correction] = field(default_factory=list)

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with all corrections."""
        changed = dict(body)
        for correction in self.corrections:
            changed = apply(correction, changed)
        return changed

    def add(self, correction: Correction) -> bool:
        """Remember a correction; return False when there is no place for it."""
        # A concurrent request may have learned it, while this one was refused for the same.
        if correction in self.corrections:
            return True
        if len(self.corrections) >= MAX_LEARNED:
            return False
        # A field that was filled and is refused all the same is dropped from now on.
        self.corrections = [known for known in self.corrections if not (known.fill and known.name == correction.name)]
        self.corrections.append(correction)
        return True


def apply(correction: Correction, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with one correction."""
    if not correction.of_messages:
        changed = {name: value for name, value in body.items() if name != correction.name}
        if correction.to and correction.name in body:
            changed[correction.to] = body[correction.name]
        return changed
    messages = []
    for message in body["messages"]:
        changed = dict(message)
        if correction.fill and message.get("tool_calls"):
            fill(changed, {correction.name: BLANK_THOUGHT.get(correction.name, " ")})
        elif not correction.fill:
            changed.pop(correction.name, None)
            if "tool_calls" in changed:
                changed["tool_calls"] = [
                    {name: value for name, value in call.items() if name != correction.name}
                    for call in changed["tool_calls"]
                ]
        messages.append(changed)
    return {**body, "messages": messages}


def find_correction(body: Mapping[str, Any], error: Any) -> Correction | None:
    """Return the change that a refusal asks for.

    No list of phrases: whatever its words, a refusal names the field, and only fields that were sent can be meant.
    """
    found, said = read_error(getattr(error, "body", None)), describe(error)
    named = [*read_locations(found), *words(str(found.get("param") or "")), *words(said)]
    if (field_name := first(named, set(body) - ESSENTIAL)) is not None:
        instead = next((name for name in LENGTH_LIMITS if name != field_name and name in named), "")
        return Correction(field_name, instead if field_name in LENGTH_LIMITS and instead not in body else "")
    assistants = [message for message in body["messages"] if message.get("role") == "assistant"]
    sent = {name for message in assistants for name in message} - MESSAGE_ESSENTIAL
    sent |= {name for message in assistants for call in message.get("tool_calls") or () for name in call}
    sent -= {"id", "type", "function"}
    with_calls = [message for message in assistants if message.get("tool_calls")]
    for name in dict.fromkeys(named):
        is_missing = any(name not in message for message in with_calls)
        # Named, and not in every message that might need it: what is missing is asked for. Otherwise it is unwanted.
        if name in BLANK_THOUGHT and with_calls and is_missing and name not in read_locations(found):
            return Correction(name, of_messages=True, fill=True)
        if name in sent:
            return Correction(name, of_messages=True)
    return None


def read_locations(error: Mapping[str, Any]) -> list[str]:
    """Return the last names of the places that a validation error lists, as FastAPI and Mistral write them."""
    message = error.get("message")
    detail = message.get("detail") if isinstance(message, Mapping) else error.get("detail")
    if isinstance(message, str) and message.startswith("{"):
        try:
            detail = json.loads(message).get("detail")
        except (ValueError, AttributeError):
            detail = None
    items = detail if isinstance(detail, list) else []
    places = (item.get("loc") for item in items if isinstance(item, Mapping))
    return [str(place[-1]) for place in places if isinstance(place, list | tuple) and place]


def words(text: str) -> list[str]:
    """Return the words of a text that could be names of fields."""
    return re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)


def first(named: Iterable[str], candidates: set[str]) -> str | None:
    return next((name for name in named if name in candidates), None)

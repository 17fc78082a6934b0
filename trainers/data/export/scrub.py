"""Removal of personal data and keys from rows of training data.

Personal data is looked for in users' words alone, since a table is full of digits that look like it, and keys in all
words. What is found is replaced wherever the row repeats it: in thoughts, arguments of calls, results and answers.
Names of persons, postal addresses and secrets without a known form stay: nothing here recognises them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.extras import name_missing_extra
from fathom.core.identity import API_KEY, PEM
from fathom.trainers.data.export.conversation import Conversation

# What a user may have said of a person; digits of tables are never touched, for only users' words are searched.
PERSONAL = (
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<email>"),
    # Order matters: an identity number of 18 digits would match as a card number, and a card number as telephones.
    (re.compile(r"(?<!\d)\d{17}[\dXx](?!\d)"), "<id number>"),
    (re.compile(r"(?<!\d)\d{4}(?:[ -]?\d{4}){3}(?:[ -]?\d{1,3})?(?!\d)"), "<card number>"),
    # With or without a country code: +86 13812345678, 010-1234-5678, 555 123 4567.
    (re.compile(r"(?<!\d)(?:\+\d{1,3}[ -]?)?(?:1[3-9]\d{9}|\d{3,4}[ -]\d{3,4}[ -]\d{4})(?!\d)"), "<phone>"),
)
KEY = "<key>"
# Addresses of machines stand in documents and logs that a run reads; they open nothing.
NO_KEYS = frozenset({"IPPublicDetector"})
# Some patterns end within the key, e.g. before the signature of a token: it goes with the rest of its word.
REST = re.compile(r"[\w.+/=-]*")


@dataclass(frozen=True)
class Scrubber:
    """Finds and replaces what must not be learned; made once, since reading the patterns of keys takes a second."""

    @cached_property
    def _keys(self) -> Sequence[re.Pattern[str]]:
        """Patterns of the keys of known services."""
        with name_missing_extra():
            from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
            from detect_secrets.plugins.base import RegexBasedDetector
        kinds: list[Any] = list(get_mapping_from_secret_type_to_class().values())
        known = [kind for kind in kinds if issubclass(kind, RegexBasedDetector) and kind.__name__ not in NO_KEYS]
        detectors = [kind() for kind in known]
        return (PEM, API_KEY, *(pattern for detector in detectors for pattern in detector.denylist))

    def find_keys(self, text: str) -> dict[str, str]:
        """Return placeholders by the keys in a text."""
        found = {}
        for pattern in self._keys:
            for match in pattern.finditer(text):
                rest = REST.match(text, match.end())
                found[text[match.start() : rest.end() if rest else match.end()]] = KEY
        return found

    def find(self, messages: Iterable[policy.Message]) -> dict[str, str]:
        """Return placeholders by what must not be learned of these messages."""
        found: dict[str, str] = {}
        for message in messages:
            arguments = [call.arguments_json for call in message.tool_calls]
            for text in (message.content, *arguments):
                found |= self.find_keys(text)
            if message.role == policy.ROLE_USER:
                found |= find_personal(message.content)
        return found

    def clean(self, conversation: Conversation, *others: policy.Message) -> tuple[Conversation, list[policy.Message]]:
        """Return a conversation and further messages of its row without what must not be learned."""
        found = self.find([*conversation.messages, *others])
        if not found:
            return conversation, list(others)
        said = tuple(replace(item, message=replace_all(item.message, found)) for item in conversation.said)
        return replace(conversation, said=said), [replace_all(message, found) for message in others]

    def clean_text(self, text: str) -> str:
        """Return a user's words without what must not be learned."""
        return substitute(text, {**self.find_keys(text), **find_personal(text)})


def find_personal(text: str) -> dict[str, str]:
    """Return placeholders by the personal data in a user's words."""
    found: dict[str, str] = {}
    rest = text
    for pattern, name in PERSONAL:
        found |= dict.fromkeys(pattern.findall(rest), name)
        # What an earlier pattern took, a later one must not take a part of.
        rest = pattern.sub(name, rest)
    return found


def substitute(text: str, found: dict[str, str]) -> str:
    """Replace each found text, the longest first: one may be a part of another."""
    for literal in sorted(found, key=len, reverse=True):
        text = text.replace(literal, found[literal])
        # As the arguments of a call have it, in JSON: a key of several lines is one there.
        text = text.replace(json.dumps(literal, ensure_ascii=False)[1:-1], found[literal])
    return text


def replace_all(message: policy.Message, found: dict[str, str]) -> policy.Message:
    """Return a copy of the message without what was found."""
    copy = policy.Message()
    copy.CopyFrom(message)
    copy.content = substitute(message.content, found)
    for call in copy.tool_calls:
        call.arguments_json = substitute(call.arguments_json, found)
    return copy

"""The words of the reference policy itself, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.domain.writing import wording


def load_own() -> Mapping[str, Any]:
    """Return the texts of the policy, and words that questions have."""
    return wording.load_texts("fathom.services.policy.reference")


def say(name: str, is_zh: bool, *values: object) -> str:
    """Return a text of the policy in one of the languages."""
    return wording.say(name, is_zh, *values, texts=load_own())


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_own()["reasons"])

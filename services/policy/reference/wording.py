"""The words of the reference policy, in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def load_texts() -> Mapping[str, Any]:
    """Return the texts of answers, and words that questions have."""
    text = resources.files("fathom.services.policy.reference").joinpath("texts.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def say(name: str, is_zh: bool, *values: object) -> str:
    """Return a text of an answer in one of the languages."""
    return str(load_texts()["answer"][name][is_zh]).format(*values)


def join(parts: Iterable[str], is_zh: bool) -> str:
    """Return distinct texts as one."""
    return ("；" if is_zh else "; ").join(dict.fromkeys(parts))


def cite(number: object) -> str:
    """Return the citation of a material; "" for none."""
    return f" [{number}]" if isinstance(number, int) and number else ""


def is_reason(question: str) -> bool:
    """Return whether a question asks for a reason or an explanation, which only a document can give."""
    return any(word in question.lower() for word in load_texts()["reasons"])

"""Language detection, in one place so that answering, prompting and checking agree."""

from __future__ import annotations

from typing import Literal

from fathom.domain.text.scripts import HAN_CHARACTER


def language_of(text: str) -> Literal["en", "zh"]:
    """Return "zh" when the text has two Chinese characters or more, else "en"; a single one may be part of a name."""
    return "zh" if len(HAN_CHARACTER.findall(text)) >= 2 else "en"

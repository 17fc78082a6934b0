"""Language detection, in one place so that answering, prompting and checking agree."""

from __future__ import annotations

import re

IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")


def language_of(text: str) -> str:
    """Return "zh" when the text has two Chinese characters or more, else "en"; a single one may be part of a name."""
    return "zh" if len(IDEOGRAPH.findall(text)) >= 2 else "en"

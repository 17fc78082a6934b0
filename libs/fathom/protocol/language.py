"""Which language a text is in, told in one place: who answers, who writes prompts and who checks must agree."""

from __future__ import annotations

import re

IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")


def language_of(text: str) -> str:
    """ "zh" when the text holds two Chinese characters or more, else "en"; one alone may be a name's."""
    return "zh" if len(IDEOGRAPH.findall(text)) >= 2 else "en"

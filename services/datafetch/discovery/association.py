"""Indicator names suggested by a language model for a text."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

# As many as the prompt asks for; a model that rambles must not flood the candidates.
MAX_NAMES = 12
MAX_CHARS = 80
PROMPT = (
    "Name up to 12 financial or economic indicators that answer the request below, one per line, by their usual names"
    " in the language of the request. Write nothing else.\n\nRequest: {text}"
)
# Models number their lines in spite of the prompt: "1. ", "- ", "3、".
BULLET = re.compile(r"^[\s\-*•\d.)、]+")


class Association:
    """A source of indicator names suggested by a model.

    Callers look them up in the catalog and never use them unchecked.
    """

    def __init__(self, write: Callable[[str], Awaitable[str]]) -> None:
        """Store ``write``, which returns the model's reply to a prompt, or "" when the model does not answer."""
        self._write = write

    async def __call__(self, text: str) -> Sequence[str]:
        """Return the suggested names; none when the model does not answer."""
        return names_in(await self._write(PROMPT.format(text=text)))


def names_in(text: str) -> list[str]:
    """Parse one name per line: strip bullets, drop duplicates and lines over 80 characters, keep at most twelve."""
    lines = (BULLET.sub("", line).strip() for line in text.splitlines())
    return [line for line in dict.fromkeys(lines) if 0 < len(line) <= MAX_CHARS][:MAX_NAMES]

"""First part of the chain: a language model names the indicators that a text calls for."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

MAX_NAMES = 12
MAX_CHARS = 80
PROMPT = (
    "Name up to 12 financial or economic indicators that answer the request below, one per line, by their usual names"
    " in the language of the request. Write nothing else.\n\nRequest: {text}"
)
BULLET = re.compile(r"^[\s\-*•\d.)、]+")


class Association:
    """Asks a model. What it says is only ever looked up in the library, never used as it is."""

    def __init__(self, write: Callable[[str], Awaitable[str]]) -> None:
        """``write`` gives what a model says to a prompt, "" when it does not answer."""
        self._write = write

    async def __call__(self, text: str) -> Sequence[str]:
        """Names, none without an answer: the other parts go on without it."""
        return names_in(await self._write(PROMPT.format(text=text)))


def names_in(text: str) -> list[str]:
    """One name per line, without bullets, at most twelve."""
    lines = (BULLET.sub("", line).strip() for line in text.splitlines())
    return [line for line in dict.fromkeys(lines) if 0 < len(line) <= MAX_CHARS][:MAX_NAMES]

"""Requests to a run's language model whose reply is one JSON object, with numbered lines that it refers to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeGuard

from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.questions.model_routing import find_language_model


async def ask_object(
    clients: Clients, model: str, prompt: str, request: str, max_tokens: int, timeout_s: float
) -> dict[str, Any] | None:
    """Return the object that a model replies with; None where no language model answers in time and in form."""
    name = await find_language_model(clients, model) if prompt and model else ""
    if not name:
        return None
    try:
        async with asyncio.timeout(timeout_s):
            return read_object(await complete(clients, name, prompt, request, max_tokens))
    except (FathomError, TimeoutError):
        return None


def number_lines(texts: Iterable[str]) -> str:
    """Return texts on a line each, numbered from 1."""
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def is_line_number(value: Any, count: int) -> TypeGuard[int]:
    """Return whether a value of a reply is the number of one of ``count`` lines."""
    # True and False are integers, too.
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= count

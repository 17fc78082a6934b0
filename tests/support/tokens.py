"""Counter of tokens for tests."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary

TOKENIZER = RulesTokenizer(load_vocabulary())


class RulesTokens:
    """Counts with the reference policy's tokenizer; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, ...]] = []

    async def count(self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool) -> int:
        self.asked.append(tuple(messages))
        return len(TOKENIZER.encode(TOKENIZER.render(messages, tools, prompt)))

    async def count_text(self, model: str, text: str) -> int:
        return len(TOKENIZER.encode(text))

    async def window(self, model: str) -> int:
        return 131_072

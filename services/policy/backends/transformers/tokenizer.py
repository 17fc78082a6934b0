"""Hugging Face tokenizer with its chat template, as a ``Template``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fathom.core.errors import CorruptData
from fathom.domain.chat.encoding import ContentEncoder
from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.policy.backends.chat import to_conversation, to_openai_functions, with_tools

G = TypeVar("G")


class ChatTokenizer:
    """Tokenizer with a chat template; thread-safe."""

    def __init__(self, tokenizer: Any, end_ids: frozenset[int]) -> None:
        """Wrap a fast tokenizer with a chat template; ``end_ids`` are the ids that end a turn."""
        self._tokenizer = tokenizer
        # The tokenizer below is Rust's: encoding takes no lock and sets no state.
        self._encoder = tokenizer.backend_tokenizer
        self.end_ids = end_ids
        self.size = len(tokenizer)
        # Templates are Jinja; one that never names the variable would drop the tools without an error.
        self._knows_tools = "tools" in tokenizer.chat_template
        self._contents = ContentEncoder(tokenizer)

    @classmethod
    def from_folder(cls, folder: Path, end_ids: frozenset[int]) -> ChatTokenizer:
        """Load ``tokenizer.json`` and ``tokenizer_config.json``; raise ``CorruptData`` when one is unusable."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except Exception as error:  # the library raises what its parts raise: OSError, ValueError, KeyError, Exception
            raise CorruptData(str(folder), f"the tokenizer cannot be read: {error}") from error
        # Slow tokenizers are Python, not thread-safe, and have no backend to encode with.
        if not getattr(tokenizer, "is_fast", False):
            raise CorruptData(str(folder), "holds no tokenizer.json")
        if not isinstance(tokenizer.chat_template, str):
            raise CorruptData(str(folder), "the tokenizer has no chat template")
        if tokenizer.eos_token_id is not None:
            end_ids |= {int(tokenizer.eos_token_id)}
        return cls(tokenizer, end_ids)

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool) -> str:
        """Render the chat template; no content becomes a special token when the text is encoded."""
        conversation = self._contents.cover_messages(to_conversation(messages))
        functions = self._contents.cover_tools(to_openai_functions(tools))
        if self._knows_tools:
            return self._contents.render(conversation, functions, generation_prompt)
        return self._contents.render(with_tools(conversation, functions), (), generation_prompt)

    def grammars(self, kind: Callable[[Any, int], G], rows: int) -> G:
        """Create grammars over this tokenizer; ``rows`` is the size of the network's logits."""
        return kind(self._tokenizer, rows)

    def encode(self, text: str) -> list[int]:
        return self._contents.encode(text)

    def encode_content(self, text: str) -> list[int]:
        return self._contents.encode_content(text)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._encoder.decode(list(ids), skip_special_tokens=False)
        return text

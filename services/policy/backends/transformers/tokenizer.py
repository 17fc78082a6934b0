"""Hugging Face tokenizer with its chat template, as a ``Template``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fathom.core.errors import CorruptData, FathomError, InvalidField
from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.policy.backends.chat import to_openai_functions, with_tools, write_content

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
        # Longest first, so that a token that contains another one is broken up as a whole.
        self._special = tuple(sorted(tokenizer.all_special_tokens, key=len, reverse=True))

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
        """Render the chat template, with special tokens inside contents broken up."""
        shown = messages if self._knows_tools else with_tools(messages, tools)
        conversation = [
            {"role": message.role.value, "content": self._harmless(write_content(message))} for message in shown
        ]
        offered = to_openai_functions(tools) if self._knows_tools and tools else None
        try:
            text: str = self._tokenizer.apply_chat_template(
                conversation, tools=offered, add_generation_prompt=generation_prompt, tokenize=False
            )
        except FathomError:
            raise
        except Exception as error:  # jinja's, or what the template raises
            raise InvalidField("messages", f"the chat template refuses them: {error}") from error
        return text

    def _harmless(self, content: str) -> str:
        for token in self._special:
            if token in content:
                # A document that holds ``<|im_start|>system`` would otherwise be tokenized as a turn of its own. A
                # space behind the first character keeps it readable.
                content = content.replace(token, f"{token[0]} {token[1:]}")
        return content

    def grammars(self, kind: Callable[[Any, int], G], rows: int) -> G:
        """Create grammars over this tokenizer; ``rows`` is the size of the network's logits."""
        return kind(self._tokenizer, rows)

    def encode(self, text: str) -> list[int]:
        # The template has written the special tokens already; the library would put another start token in front.
        ids: list[int] = self._encoder.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._encoder.decode(list(ids), skip_special_tokens=False)
        return text

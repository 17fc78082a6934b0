"""Hugging Face tokenizer with its chat template, as a ``Template``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fathom.errors import CorruptData, FathomError, InvalidField
from fathom.protocol.messages import Message, ToolSpec
from services.policy.backends.chat import functions, with_tools, written

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
        self._knows_tools = "tools" in tokenizer.chat_template
        self._special = tuple(sorted(tokenizer.all_special_tokens, key=len, reverse=True))

    @classmethod
    def from_folder(cls, folder: Path, end_ids: frozenset[int]) -> ChatTokenizer:
        """Load ``tokenizer.json`` and ``tokenizer_config.json``; raise ``CorruptData`` when one is unusable."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except Exception as error:  # the library raises what its parts raise: OSError, ValueError, KeyError, Exception
            raise CorruptData(str(folder), f"the tokenizer cannot be read: {error}") from error
        if not getattr(tokenizer, "is_fast", False):
            raise CorruptData(str(folder), "holds no tokenizer.json")
        if not isinstance(tokenizer.chat_template, str):
            raise CorruptData(str(folder), "the tokenizer has no chat template")
        if tokenizer.eos_token_id is not None:
            end_ids |= {int(tokenizer.eos_token_id)}
        return cls(tokenizer, end_ids)

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool) -> str:
        """Render the chat template.

        Special tokens inside contents are broken up, so that no content can forge a turn.
        """
        shown = messages if self._knows_tools else with_tools(messages, tools)
        conversation = [{"role": message.role.value, "content": self._harmless(written(message))} for message in shown]
        offered = functions(tools) if self._knows_tools and tools else None
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
                content = content.replace(token, f"{token[0]} {token[1:]}")
        return content

    def grammars(self, kind: Callable[[Any, int], G], rows: int) -> G:
        """Create grammars over this tokenizer; ``rows`` is the size of the network's logits."""
        return kind(self._tokenizer, rows)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._encoder.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._encoder.decode(list(ids), skip_special_tokens=False)
        return text

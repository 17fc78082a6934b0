"""Constrained decoding with llguidance: JSON schemas and tool calls."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from typing import Any

import torch

from fathom.core.errors import InvalidField, MissingExtra
from fathom.domain.chat.hermes import CLOSE, OPEN
from fathom.domain.chat.messages import ToolSpec

# With free whitespace a small model may indent until its tokens are spent.
STRICT = {"whitespace_flexible": False}


class Grammars:
    """Grammar factory for one tokenizer; thread-safe."""

    def __init__(self, tokenizer: Any, rows: int) -> None:
        """Raise ``MissingExtra`` when llguidance is not installed.

        ``tokenizer`` is a fast tokenizer; ``rows`` is the size of the network's logits.
        """
        if importlib.util.find_spec("llguidance") is None:
            raise MissingExtra("llguidance", "policy")
        self._library: Any = importlib.import_module("llguidance")
        hugging: Any = importlib.import_module("llguidance.hf")
        # Models pad their vocabulary: the mask must be as wide as the logits, not as the tokenizer.
        self._tokenizer = hugging.from_tokenizer(tokenizer, n_vocab=rows)

    def schema(self, schema: dict[str, Any]) -> Grammar:
        """Return a new grammar of a JSON schema.

        Raise ``InvalidField("response_schema_json")`` for an unsupported schema.
        """
        matcher_type = self._library.LLMatcher
        try:
            text = matcher_type.grammar_from_json_schema(json.dumps(schema), overrides=STRICT)
            failed, messages = matcher_type.validate_grammar_with_warnings(text, self._tokenizer)
        except ValueError as error:
            failed, messages = True, [str(error)]
        if failed:
            raise InvalidField("response_schema_json", f"cannot be followed: {'; '.join(messages)[:300]}")
        return Grammar(matcher_type(self._tokenizer, text))

    def calls(self, tools: Sequence[ToolSpec]) -> Grammar:
        """Return a new grammar of one call of one of the tools, written as in ``fathom.domain.chat.hermes``.

        Raises ``InvalidField("tools")`` for an unsupported schema.
        """
        return self.follow(call_grammar(tools), "tools")

    def follow(self, lark: str, field: str = "grammar") -> Grammar:
        """Return a new grammar from llguidance's dialect of Lark; raise ``InvalidField`` naming ``field``."""
        matcher_type = self._library.LLMatcher
        text = matcher_type.grammar_from_lark(lark)
        problem = matcher_type.validate_grammar(text, self._tokenizer)
        if problem:
            raise InvalidField(field, f"cannot be followed: {problem[:300]}")
        return Grammar(matcher_type(self._tokenizer, text))


def call_grammar(tools: Sequence[ToolSpec]) -> str:
    """Return a Lark grammar of an opening tag, an object with a tool's name and arguments, and a closing tag."""
    rules = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": json.loads(tool.parameters_json)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    names = [f"call_{place}" for place in range(len(rules))]
    lines = [f'start: "{OPEN}\\n" ({" | ".join(names)}) "\\n{CLOSE}"']
    for name, rule in zip(names, rules, strict=True):
        # Bounds that the grammar does not know (formats, minima) are for the tool to check.
        lines.append(f"{name}: %json {json.dumps({**rule, 'x-guidance': {**STRICT, 'lenient': True}})}")
    return "\n".join(lines)


class Grammar:
    """State of one completion in its grammar."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask_allowed(self, size: int) -> torch.Tensor:
        """Return a mask [size] of the ids allowed next."""
        # The library packs the mask into bits, least significant first, in whole 32-bit words.
        packed = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.uint8)
        bits = (packed[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        mask = bits.reshape(-1)[:size].bool()
        return torch.nn.functional.pad(mask, (0, size - len(mask)))

    def consume(self, token: int) -> None:
        self._matcher.consume_token(token)

    @property
    def is_complete(self) -> bool:
        """Return whether the grammar allows no further token."""
        return bool(self._matcher.is_stopped())

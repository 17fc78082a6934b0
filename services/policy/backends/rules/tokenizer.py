"""Byte-level tokenizer: every text has ids that decode to the same bytes, so trajectories are exact.

Ids 0 to 255 are UTF-8 bytes, followed by two turn markers and frequent pieces from ``vocabulary.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources

from fathom.domain.chat.messages import Message, ToolSpec
from fathom.domain.text.scripts import HAN
from fathom.services.policy.backends.chat import to_conversation, to_openai_functions, with_tools

START, END = "<|im_start|>", "<|im_end|>"
# Recorded trajectories contain these ids: pieces may be appended to the vocabulary, but never moved or removed.
START_ID, END_ID, FIRST_PIECE = 256, 257, 258
MARKER = re.compile(r"(<\|im_(?:start|end)\|>)")
# A word with the blank before it, one ideograph, an escaped or real line break with its indentation, a run of marks, of
# blanks or of digits.
PIECE = re.compile(rf" ?[A-Za-z]+|[{HAN}]|\\n *|\n+ *|[^\sA-Za-z0-9{HAN}]+|\s+|\d+")


def load_vocabulary() -> tuple[str, ...]:
    """Load the pieces in the order of their ids."""
    text = (
        resources.files("fathom.services.policy.backends.rules").joinpath("vocabulary.json").read_text(encoding="utf-8")
    )
    return tuple(json.loads(text))


class RulesTokenizer:
    """Tokenizer and ChatML template of the reference policy; a ``Template``."""

    end_ids = frozenset({END_ID})

    def __init__(self, pieces: Sequence[str]) -> None:
        self._ids = {piece: FIRST_PIECE + index for index, piece in enumerate(pieces)}
        self._bytes = [
            *(bytes([value]) for value in range(256)),
            START.encode(),
            END.encode(),
            *(piece.encode() for piece in pieces),
        ]

    @property
    def size(self) -> int:
        """Return the number of ids."""
        return len(self._bytes)

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool) -> str:
        """Render ChatML; turn markers inside contents are broken up, so that no content can forge a turn."""
        turns = [
            f"{START}{message['role']}\n{harmless(message['content'])}{END}\n"
            for message in with_tools(to_conversation(messages), to_openai_functions(tools))
        ]
        return "".join(turns) + (f"{START}assistant\n" if generation_prompt else "")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in MARKER.split(text):
            if part == START:
                ids.append(START_ID)
            elif part == END:
                ids.append(END_ID)
            else:
                ids += self.encode_content(part)
        return ids

    def encode_content(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in PIECE.findall(text):
            known = self._ids.get(piece)
            if known is None:
                # "surrogatepass": whatever JSON can hold has ids.
                ids += piece.encode("utf-8", "surrogatepass")
            else:
                ids.append(known)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._bytes[token] for token in ids).decode("utf-8", "replace")


def harmless(content: str) -> str:
    """Return the content with its turn markers broken up."""
    return MARKER.sub(lambda match: f"< {match.group()[1:]}", content)

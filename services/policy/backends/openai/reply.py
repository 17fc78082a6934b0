"""Accumulated state of one streamed reply: text, thoughts, calls, opaque parts, usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import FinishReason, ToolCall, ToolFormat, Usage
from fathom.services.policy.backends.openai.calls import CallCollector
from fathom.services.policy.backends.openai.opaque import merge_field, write_opaque
from fathom.services.policy.backends.openai.profile import RequestProfile
from fathom.services.policy.backends.openai.thoughts import Piece, ThoughtSplitter
from fathom.services.policy.backends.openai.usage import read_usage

# All other reasons ("stop", "tool_calls", vendors' own) are an ordinary end.
FINISH = {
    "length": FinishReason.LENGTH, "max_tokens": FinishReason.LENGTH, "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER, "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}  # fmt: skip
# Known parts of an assistant's message; everything else is opaque.
KNOWN = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "audio", "annotations"})
TEXT_OF_THOUGHT = ("reasoning_content", "reasoning")
DETAILS = "reasoning_details"


@dataclass
class Reply:
    """A reply as far as it has arrived. ``inside`` says that the content begins within a thought without a tag."""

    profile: RequestProfile
    tool_format: ToolFormat
    stops: Sequence[str] = ()
    inside: bool = False
    finish: str = ""
    stopped: bool = False
    usage: Usage | None = None
    calls: CallCollector = field(default_factory=CallCollector)
    splitter: ThoughtSplitter = field(init=False)
    _content: list[str] = field(default_factory=list)
    _parts: list[Any] = field(default_factory=list)
    """Content that came as a list of parts."""
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _fields: dict[str, Any] = field(default_factory=dict)
    _thought: list[str] = field(default_factory=list)
    _tail: str = ""
    _cut: int = 0
    """Characters of the text behind a stop string."""

    def __post_init__(self) -> None:
        self.splitter = ThoughtSplitter(inside=self.inside)

    def take(self, chunk: Mapping[str, Any]) -> list[Piece]:
        """Add a chunk, or a whole response; return its pieces, up to and including a stop string.

        Calls are written out as text in the pieces, so that callers can stream them. Raises ``TypeError``,
        ``AttributeError`` or ``ValueError`` for fields of another type than documented.
        """
        self.usage = read_usage(chunk) or self.usage
        choices = chunk.get("choices")
        # With `include_usage` the last chunk has the usage and no choices; Azure also begins with such a chunk.
        if not choices:
            return []
        choice = choices[0]
        self.finish = choice.get("finish_reason") or self.finish
        delta = choice.get("delta") or choice.get("message") or {}
        pieces = self._take_fields(delta)
        # A refusal is what the model says in place of an answer.
        pieces += self._take_content(delta.get("content") or delta.get("refusal"))
        for call in delta.get("tool_calls") or ():
            if written := self.calls.take(call):
                pieces.append(Piece(text=written))
        return pieces

    def _take_fields(self, delta: Mapping[str, Any]) -> list[Piece]:
        """Keep the opaque fields; return the thought that they add."""
        before = len(read_details(self._fields.get(DETAILS)))
        for name, value in delta.items():
            if name in KNOWN or value in (None, "", [], {}):
                continue
            if isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            else:
                self._fields[name] = merge_field(self._fields.get(name), value)
        text = next((delta[name] for name in TEXT_OF_THOUGHT if isinstance(delta.get(name), str) and delta[name]), "")
        # Some endpoints send the same thought as a text and as details. Pieces of details may go on, or repeat from the
        # beginning: what is new is the difference.
        if not text and delta.get(DETAILS):
            text = read_details(self._fields[DETAILS])[before:]
        if text:
            self._thought.append(text)
        return [Piece(thought=text)] if text else []

    def _take_content(self, content: Any) -> list[Piece]:
        pieces: list[Piece] = []
        if isinstance(content, list):
            self._parts += content
            for part in content:
                thought, text = read_part(part)
                if thought:
                    self._thought.append(thought)
                    pieces.append(Piece(thought=thought))
                pieces += self._split(text)
            return pieces
        if content:
            if self._parts:
                self._parts.append({"type": "text", "text": content})
            pieces = self._split(content)
        return pieces

    def _split(self, text: str) -> list[Piece]:
        if not text or self.stopped:
            return []
        self._content.append(text)
        # Tags are the protocol there, thoughts among them: the text stays as it was sampled.
        if self.tool_format is ToolFormat.TAGS:
            return self._stop_at([Piece(text=text)])
        return self._stop_at(self.splitter.feed(text))

    def _stop_at(self, pieces: list[Piece]) -> list[Piece]:
        """Cut the text behind a stop string, which the endpoint would leave out; the contract keeps it."""
        if not self.stops:
            return pieces
        kept: list[Piece] = []
        for piece in pieces:
            if not piece.text:
                kept.append(piece)
                continue
            whole = self._tail + piece.text
            ends = [whole.index(stop) + len(stop) for stop in self.stops if stop in whole]
            if ends:
                self.stopped = True
                surplus = len(whole) - min(ends)
                self._cut = surplus
                kept.append(Piece(text=piece.text[: len(piece.text) - surplus]))
                return kept
            # No more than what a stop string may begin in.
            self._tail = whole[-max(map(len, self.stops)) :]
            kept.append(piece)
        return kept

    def end(self) -> list[Piece]:
        """Return the pieces that were held back until the end."""
        if self.stopped or self.tool_format is ToolFormat.TAGS:
            return []
        return self._stop_at(self.splitter.end())

    @property
    def text(self) -> str:
        whole = "".join(self._content) if self.tool_format is ToolFormat.TAGS else self.splitter.text
        return whole[: len(whole) - self._cut] if self._cut else whole

    @property
    def reasoning(self) -> str:
        return "".join(self._thought) + self.splitter.thinking

    @property
    def finish_reason(self) -> FinishReason:
        return FINISH.get(str(self.finish).lower(), FinishReason.STOP)

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the native tool calls, or else those written in the text."""
        # In this format a call is part of the text, and nothing else may be taken for one.
        if self.tool_format is ToolFormat.TAGS:
            return ()
        return tuple(call for call, _ in self.calls.finish()) or parse_tool_calls(self.text)[1]

    def opaque_json(self) -> str:
        """Return what the endpoint wants back with the message, as JSON; "" for nothing."""
        fields = {**{name: "".join(texts) for name, texts in self._texts.items()}, **self._fields}
        if self._parts:
            fields["content"] = self._parts
        elif self.profile.family.keeps_tags and self.splitter.thinking:
            fields["content"] = "".join(self._content)
        return write_opaque(self.profile.origin, fields, [extras for _, extras in self.calls.finish()])


def read_part(part: Any) -> tuple[str, str]:
    """Return the thought and the text of one part of a content list."""
    if not isinstance(part, Mapping):
        return "", ""
    inner = part.get("thinking")
    if isinstance(inner, list):
        return "".join(str(item.get("text", "")) for item in inner if isinstance(item, Mapping)), ""
    if isinstance(inner, str):
        return inner, ""
    return "", str(part.get("text") or "")


def read_details(items: Any) -> str:
    """Return the readable text of a list of reasoning details."""
    if not isinstance(items, list):
        return ""
    texts = (item.get("text") or item.get("summary") for item in items if isinstance(item, Mapping))
    return "".join(text for text in texts if isinstance(text, str))

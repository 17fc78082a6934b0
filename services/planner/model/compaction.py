"""Settings of the window, and the record of a compaction, from which the same view can be rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fathom.domain.chat.messages import Message, Usage


class StepPolicy(StrEnum):
    """Treatment of earlier steps when a request grows too long."""

    OFF = "off"
    """Keep everything; for ablations."""
    DELETE = "delete"
    """Remove repeated attempts and failed code, and reduce older results to one line each."""
    SUMMARIZE = "summarize"
    """Replace older steps by one message of notes that keeps all their numbers."""
    HYBRID = "hybrid"
    """Delete, and summarize when that is not enough."""


@dataclass(frozen=True)
class WindowSettings:
    """Limits of a request in tokens of the model that reads it."""

    policy: StepPolicy = StepPolicy.HYBRID
    tokens: int = 24_000
    """The working window."""
    soft_tokens: int = 16_000
    """Target size of a compaction."""
    trigger: float = 0.70
    """Share of the window (0 to 1) at which a request is compacted."""
    keep_results: int = 5
    """Newest tool results that are kept unchanged."""
    keep_steps: int = 2
    """Newest steps that are never removed."""

    def within(self, model_tokens: int) -> WindowSettings:
        """Scale the settings to a smaller window of the model; 0 means unknown."""
        # The target keeps its share of the window; results and steps to keep are counts and stay as they are.
        tokens = min(self.tokens, model_tokens or self.tokens)
        soft = self.soft_tokens * tokens // self.tokens
        return WindowSettings(self.policy, tokens, soft, self.trigger, self.keep_results, self.keep_steps)

    @property
    def trigger_tokens(self) -> float:
        """Return the request size in tokens at which compaction starts."""
        return self.trigger * self.tokens

    @property
    def target_tokens(self) -> int:
        """Return the target size of a compaction: the soft limit, but always below the trigger."""
        # A target at the trigger would be compacted again with the next message.
        return min(self.soft_tokens, int(self.trigger_tokens * 0.95))


@dataclass(frozen=True)
class ViewMessage:
    """One message of a compacted view: one of the episode's by its index, or a replacement.

    ``source`` is the index in the episode's messages, or -1 for a message that stands for several.
    """

    source: int
    message: Message | None = None

    def text(self, messages: Sequence[Message]) -> Message:
        """Return the message itself, from the episode's messages unless it is a replacement."""
        return messages[self.source] if self.message is None else self.message


@dataclass(frozen=True)
class Compaction:
    """View from one step on, including the new messages, and how it was made."""

    policy: StepPolicy
    shown: tuple[ViewMessage, ...]
    tokens_before: int
    tokens_after: int
    dropped: tuple[str, ...] = ()
    """Results not shown in full, oldest first; ``recall`` returns them by round."""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    """Token usage of the summarizer."""
    written: bool = False
    """True when a model wrote the notes."""
    failures: int = 0
    """Failed attempts of the summarizer."""
    numbers_left_out: int = 0
    """Count of numbers of summarized steps that were left out; their tables are still in Python."""
    window_tokens: int = 0
    """Effective window: the setting, or the model's own window when that is smaller."""

    @property
    def dropped_steps(self) -> tuple[int, ...]:
        """Return the steps with results not shown in full."""
        # A set would lose the order.
        return tuple(dict.fromkeys(int(id.partition("-")[0]) for id in self.dropped))


def result_id(step: int, position: int) -> str:
    """Return the id of a tool result in its run, e.g. ``3-0``: step and position, both from 0."""
    return f"{step}-{position}"

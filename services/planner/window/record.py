"""How the window is set, and what a compaction leaves on record: enough to show the same view again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fathom.protocol.messages import Message, Usage


class StepPolicy(StrEnum):
    """What becomes of earlier steps when a request grows too long (rows M04 to M07)."""

    OFF = "off"
    """Nothing; for ablations."""
    DELETE = "delete"
    """Repeated attempts and failed code go, older results become one line each."""
    SUMMARIZE = "summarize"
    """Older steps become one message of notes that keeps every number of theirs."""
    HYBRID = "hybrid"
    """Delete, and summarise when that is not enough."""


@dataclass(frozen=True)
class WindowSettings:
    """Bounds of a request in tokens of the model that reads it."""

    policy: StepPolicy = StepPolicy.HYBRID
    tokens: int = 24_000
    """The working window."""
    soft_tokens: int = 16_000
    """What a compaction aims at."""
    trigger: float = 0.70
    """Share of the window at which a request is compacted, and below which it then is."""
    keep_results: int = 5
    """Newest tool results that stay as they are."""
    keep_steps: int = 2
    """Newest steps that are never dropped."""

    def within(self, model_tokens: int) -> WindowSettings:
        """The same shares of a smaller window, when the model has one; 0 says nothing."""
        tokens = min(self.tokens, model_tokens or self.tokens)
        soft = self.soft_tokens * tokens // self.tokens
        return WindowSettings(self.policy, tokens, soft, self.trigger, self.keep_results, self.keep_steps)

    @property
    def trigger_tokens(self) -> float:
        """A request of this many tokens is compacted."""
        return self.trigger * self.tokens

    @property
    def target_tokens(self) -> int:
        """What a compaction aims at: the soft target, and below the trigger in any case."""
        return min(self.soft_tokens, int(self.trigger_tokens * 0.95))


@dataclass(frozen=True)
class Shown:
    """One message of a compacted view: an episode's own by its index, or another text in its place.

    ``source`` is the index in the episode's messages, -1 for a message that stands for several.
    """

    source: int
    message: Message | None = None

    def text(self, messages: Sequence[Message]) -> Message:
        """The message, found among the episode's own when it is one of them."""
        return messages[self.source] if self.message is None else self.message


@dataclass(frozen=True)
class Compaction:
    """What the model was shown from one step on, new messages included, and how that came about."""

    policy: StepPolicy
    shown: tuple[Shown, ...]
    tokens_before: int
    tokens_after: int
    dropped: tuple[str, ...] = ()
    """Results that are no longer shown in full, oldest first; ``recall`` gives them again by their round."""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    """What the summariser took."""
    written: bool = False
    """True when a model wrote the notes."""
    failures: int = 0
    """How often the summariser failed at this."""
    numbers_left_out: int = 0
    """Numbers of summarised steps that found no room; their tables are still in Python."""
    window_tokens: int = 0
    """The working window: the setting, or the model's own when that is smaller."""

    @property
    def dropped_steps(self) -> tuple[int, ...]:
        """Steps with results that are no longer shown in full."""
        return tuple(dict.fromkeys(int(id.partition("-")[0]) for id in self.dropped))


def result_id(step: int, position: int) -> str:
    """The id of a tool result in its run, e.g. ``3-0``: step and position, both from 0."""
    return f"{step}-{position}"

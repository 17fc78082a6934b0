"""Budget of an episode: rounds, tokens, seconds and money, with a warning and a final round before the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.protocol.messages import Message, Usage
from fathom.protocol.notices import NOTE
from services.planner.model import Episode, Limits

HALF, WARN, FINAL = 0.5, 0.8, 0.92
WARNED = f"{NOTE}most of the budget is spent: "


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, in one currency; 0 is free."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, usage: Usage) -> float:
        return (usage.prompt_tokens * self.prompt + usage.completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class Spent:
    """Usage of one resource; ``limit`` 0 means unlimited."""

    name: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0

    def __str__(self) -> str:
        return f"{self.used:,.4g} of {self.limit:,.4g} {self.name}"


@dataclass(frozen=True)
class Account:
    """State of a budget before a round."""

    spent: tuple[Spent, ...]
    rounds: int
    rounds_left: int

    @property
    def over(self) -> bool:
        """Return whether no further round may begin. Time is not considered, because the deadline enforces it."""
        return self.rounds_left <= 0 or any(item.share >= 1 for item in self.spent if item.name in ("tokens", "cost"))

    @property
    def last(self) -> bool:
        """Return whether this must be the final round: little is left, or less than two average rounds would take."""
        return self.rounds_left == 1 or any(self._ends(item.share) for item in self.spent if item.name != "rounds")

    def _ends(self, share: float) -> bool:
        return share >= FINAL or (share >= HALF and share * (1 + 2 / max(self.rounds, 1)) > 1)

    def warning(self) -> str:
        """Return a note to the model about nearly exhausted resources; "" while there is enough."""
        near = [str(item) for item in self.spent if item.share >= WARN]
        return f"{WARNED}{', '.join(near)}. Collect only what the answer cannot do without." if near else ""

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.spent if item.limit)


def account(episode: Episode, limits: Limits, prices: Prices, now: float) -> Account:
    """Return the budget's state before the next round. ``now`` is on the clock of ``limits.deadline``."""
    rounds, usage = len(episode.steps) - limits.since, episode.usage_since(limits.since)
    spent = (
        Spent("rounds", rounds, limits.max_rounds),
        Spent("tokens", usage.completion_tokens, limits.max_tokens),
        Spent("seconds", max(0.0, now - limits.deadline + limits.max_seconds), limits.max_seconds),
        Spent("cost", prices.cost(usage), limits.max_cost),
    )
    return Account(spent, rounds, limits.max_rounds - rounds)


def warned(messages: Sequence[Message]) -> bool:
    """Return whether the warning has been given already."""
    return any(line.startswith(WARNED) for message in messages for line in message.content.splitlines())

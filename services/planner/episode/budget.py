"""Budget of an episode: rounds, tokens, seconds and money, with a warning and a final round before the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from fathom.domain.chat.messages import Message
from fathom.domain.chat.notices import NOTE
from fathom.services.planner.model.effort import Prices
from fathom.services.planner.model.episode import Episode, Limits

# The model is warned at 80 %. From 92 % on, or from half on if two more average rounds would not fit, the next round
# is the last, because an answer needs about one round's tokens.
HALF, WARN, FINAL = 0.5, 0.8, 0.92
WARNED = f"{NOTE}most of the budget is spent: "


@dataclass(frozen=True)
class ResourceUse:
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
class BudgetState:
    """State of a budget before a round."""

    spent: tuple[ResourceUse, ...]
    rounds: int
    rounds_left: int
    is_over: bool
    """True when no further round may begin. Time is not considered, because the deadline enforces it."""

    @property
    def is_last(self) -> bool:
        """Return whether this must be the final round: little is left, or less than two average rounds would take."""
        return self.rounds_left == 1 or any(self._is_ending(item.share) for item in self.spent if item.name != "rounds")

    def _is_ending(self, share: float) -> bool:
        # From half on the average of the rounds so far is a usable forecast.
        return share >= FINAL or (share >= HALF and share * (1 + 2 / max(self.rounds, 1)) > 1)

    def format_warning(self) -> str:
        """Return a note to the model about nearly exhausted resources; "" while there is enough."""
        near = [str(item) for item in self.spent if item.share >= WARN]
        return f"{WARNED}{', '.join(near)}. Collect only what the answer cannot do without." if near else ""

    def __str__(self) -> str:
        return ", ".join(map(str, filter(attrgetter("limit"), self.spent)))


def measure_budget(episode: Episode, limits: Limits, prices: Prices, now: float) -> BudgetState:
    """Return the budget's state before the next round. ``now`` is on the clock of ``limits.deadline``."""
    rounds, usage = len(episode.steps) - limits.since, episode.usage_since(limits.since)
    # Reckoned only where it is limited: nobody reads it otherwise.
    cost = prices.cost(usage) if limits.max_cost else 0.0
    spent = (
        ResourceUse("rounds", rounds, limits.max_rounds),
        ResourceUse("tokens", usage.completion_tokens, limits.max_tokens),
        # The start is deduced from the deadline, because a resumed run has a new deadline but an old first step.
        ResourceUse("seconds", max(0.0, now - limits.deadline + limits.max_seconds), limits.max_seconds),
        ResourceUse("cost", cost, limits.max_cost),
    )
    is_over = (
        rounds >= limits.max_rounds or 0 < limits.max_tokens <= usage.completion_tokens or 0 < limits.max_cost <= cost
    )
    return BudgetState(spent, rounds, limits.max_rounds - rounds, is_over)


def has_warning(messages: Sequence[Message]) -> bool:
    """Return whether the warning has been given already."""
    # Once is enough; a note in every round would cost tokens and be ignored.
    return any(line.startswith(WARNED) for message in messages for line in message.content.splitlines())

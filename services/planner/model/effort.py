"""Effort of a run: what a question may take, by the asker's choice, the model and the server's caps; and its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType

from pydantic import Field

from fathom.core.config import Settings
from fathom.domain.chat.messages import Usage


class Effort(StrEnum):
    """Work that a question is worth to the one who asks."""

    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"


class EffortProfile(Settings):
    """Limits of a run of one effort. In a model's profile, fields that are 0 or "" stay as they are."""

    max_rounds: int = Field(default=0, ge=0, le=400)
    """Rounds of sampling and tool calls."""
    max_tokens: int = Field(default=0, ge=0)
    """Tokens sampled in all."""
    max_run_ms: int = Field(default=0, ge=0)
    """Wall-clock milliseconds, the wait in the queue included."""
    window_tokens: int = Field(default=0, ge=0)
    """Working window in tokens."""
    completion_tokens: int = Field(default=0, ge=0)
    """Tokens of one completion of an endpoint's model, its thought included; 0 leaves it to policy's settings."""
    reasoning_effort: str = Field(default="", pattern=r"^[a-z]{0,16}$")
    """Amount of thought of a thinking model, in the words of its endpoint; "" leaves it to the model."""

    def overlaid(self, other: EffortProfile) -> EffortProfile:
        """Return the profile with the fields that ``other`` sets."""
        return self.model_copy(update={name: value for name, value in other if value})


class ModelProfile(Settings):
    """Particulars of one model: how it works, and what it costs."""

    is_thinking: bool = False
    """True for a model that thinks by itself, which is then not offered the tool ``think``."""
    efforts: Mapping[Effort, EffortProfile] = Field(default_factory=dict)
    """Limits by effort, where they differ from the planner's, e.g. more seconds for a slow model."""
    prompt_price: float | None = Field(default=None, ge=0)
    """Price per million prompt tokens; unset is the planner's."""
    cached_price: float | None = Field(default=None, ge=0)
    """Price per million prompt tokens that were served from a cache; unset is the price of the others."""
    completion_price: float | None = Field(default=None, ge=0)
    """Price per million sampled tokens; unset is the planner's."""


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, in one currency; 0 is free, ``cached`` None costs what other prompt tokens do."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of a usage: the one that policy has reckoned by the model's own prices, if it has."""
        if usage.cost:
            return usage.cost
        cached = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (fresh * self.prompt + usage.cached_tokens * cached + usage.completion_tokens * self.completion) / 1e6


# Standard leaves the size of a completion to policy, which knows each family's own: 32,768 for thinking models.
QUICK = EffortProfile(
    max_rounds=6, max_tokens=40_000, max_run_ms=90_000, window_tokens=32_000, completion_tokens=8_192,
    reasoning_effort="low",
)  # fmt: skip
DEEP = EffortProfile(
    max_rounds=60, max_tokens=600_000, max_run_ms=900_000, window_tokens=96_000, completion_tokens=32_768,
    reasoning_effort="high",
)  # fmt: skip
# Of the reference policy tokens are bytes and frequent pieces: its own window has about the words that 40,000 tokens of
# a language model have; in 40,000 of its own the older results of a report's parts would be cut to a line each.
BYTES = EffortProfile(window_tokens=131_072)
KNOWN_MODELS: Mapping[str, ModelProfile] = MappingProxyType(
    {"rules": ModelProfile(efforts=dict.fromkeys(Effort, BYTES))}
)
"""Particulars of models that are the same everywhere; settings of the same name take their place."""
BOUNDS = ("max_rounds", "max_tokens", "max_run_ms")
"""Limits that a request's budget names, too."""


@dataclass(frozen=True)
class Asked:
    """Limits that a request names; 0 leaves one to the effort."""

    effort: Effort | None = None
    max_rounds: int = 0
    max_tokens: int = 0
    max_run_ms: int = 0


@dataclass(frozen=True)
class Granted:
    """Limits of a run; ``capped`` says, one line each, which of those asked for the server has lowered."""

    effort: Effort
    limits: EffortProfile
    capped: tuple[str, ...] = ()


def grant(asked: Asked, efforts: Mapping[Effort, EffortProfile], caps: Mapping[str, int]) -> Granted:
    """Return the limits of a run: those asked for, else the effort's, up to the largest effort and to the caps.

    ``caps`` has the limits that bind every effort.
    """
    effort = asked.effort or Effort.STANDARD
    limits, capped = dict(efforts[effort]), list[str]()
    for name in BOUNDS:
        largest = min(max(map(attrgetter(name), efforts.values())), caps.get(name, 10**18))
        named = getattr(asked, name)
        wanted = named or limits[name]
        limits[name] = min(wanted, largest)
        # The defaults of a server are its own business; only what somebody asked for is missed.
        if limits[name] < wanted and (named or asked.effort):
            capped.append(f"{name}: {wanted:,} asked, {limits[name]:,} allowed")
    return Granted(effort, EffortProfile(**limits), tuple(capped))

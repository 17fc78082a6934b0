"""Limits of an episode: the caller's wishes, capped by the server's configuration."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.model.episode import Limits


def validate_question(question: str, longest: int, field: str = "question") -> str:
    """Return the question without surrounding whitespace; raise ``InvalidField`` when it is empty or too long."""
    question = question.strip()
    if not question:
        raise InvalidField(field, "is empty")
    if len(question) > longest:
        raise InvalidField(field, f"has {len(question):,} characters; at most {longest:,} are allowed")
    return question


def cap_limit(requested: int, longest: int, field: str) -> int:
    """Return the requested limit, at most ``longest``; 0 requests the default, which is ``longest``.

    Raises ``InvalidField`` for a negative one.
    """
    if requested < 0:
        raise InvalidField(field, "must not be negative")
    return min(requested, longest) if requested else longest


def cap_cost(requested: float, most: float, field: str) -> float:
    """Return the smaller of two cost limits, where 0 means unlimited; raise ``InvalidField`` for a negative one."""
    # Written so that NaN is refused, too.
    if not requested >= 0:
        raise InvalidField(field, "must not be negative")
    # With 0 for "no limit" on either side, min() would take the 0.
    return min(requested, most) if requested and most else requested or most


def validate_budget(budget: pb.Budget) -> None:
    """Raise ``InvalidField`` for a negative limit."""
    for name in ("max_rounds", "max_tokens", "max_ms"):
        cap_limit(getattr(budget, name), 1, f"budget.{name}")
    cap_cost(budget.max_cost, 1.0, "budget.max_cost")


def make_limits(
    max_rounds: int,
    max_tokens: int,
    max_ms: int,
    worked_s: float = 0.0,
    max_cost: float = 0.0,
    since: int = 0,
) -> Limits:
    """Return limits that count from step ``since``, of whose time ``worked_s`` seconds are spent already."""
    longest = max_ms / 1000
    # No clock of another machine, nor the wait in the queue: the time is the run's own.
    return Limits(max_rounds, max_tokens, time.monotonic() + longest - worked_s, longest, max_cost, since)


def cap_sampling(sampling: Sampling, max_tokens: int) -> Sampling:
    """Limit the sampling to ``max_tokens`` tokens per completion; 0 sets no limit."""
    if max_tokens == 0:
        return sampling
    return replace(sampling, max_tokens=cap_limit(sampling.max_tokens, max_tokens, "sampling.max_tokens"))


def vary_seed(sampling: Sampling, index: int) -> Sampling:
    """Return the sampling of round ``index``; a seed other than 0 gives each round random numbers of its own.

    A request begins with the first numbers of its seed: with one seed for all rounds what a model draws in one would
    depend on what it drew in those before, and an episode would be no sample of its policy.
    """
    if not sampling.seed or not index:
        return sampling
    digest = sha256(f"{sampling.seed}:{index}".encode())
    # 31 bits: some endpoints take no more; and 0 would ask for another seed in each play.
    return replace(sampling, seed=int(digest[:8], 16) & 0x7FFF_FFFF or 1)


def resolve_today(as_of: Any, start_time: float) -> str:
    """Return the ISO date (UTC) that an episode regards as today: of ``as_of`` (a Timestamp), else of its start."""
    # A question asked as of an earlier date must not learn today's.
    moment = as_of.ToDatetime() if as_of is not None else datetime.fromtimestamp(start_time, UTC)
    return str(moment.date().isoformat())

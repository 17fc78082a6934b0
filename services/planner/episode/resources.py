"""Resources of an episode: tools, window, ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fathom.services.planner.answering.rendering.finish import CitedEnding, Ending
from fathom.services.planner.episode.finish_guard import NeedsEvidence
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.effort import Prices
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.model.view import FullWindow, Window
from fathom.services.planner.tools.registry import Registry


async def do_nothing() -> None:
    """Do nothing, for episodes without resources to release."""


@dataclass(frozen=True)
class EpisodeResources:
    """Resources of one episode; ``close`` releases what its tools hold."""

    tools: Registry
    window: Window = field(default_factory=FullWindow)
    ending: Ending = field(default_factory=CitedEnding)
    close: Callable[[], Awaitable[None]] = do_nothing
    todo: Todo = field(default_factory=Todo)
    prices: Prices = field(default_factory=Prices)
    metrics: Metrics = field(default_factory=lambda: Metrics.register(None))
    needs_evidence: NeedsEvidence | None = None
    """None refuses no answer for want of a source."""

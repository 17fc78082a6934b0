"""Selection of an episode's executor by its protocol: agent loop or fixed pipeline."""

from __future__ import annotations

from services.planner.loop import Loop
from services.planner.model import Episode, Step
from services.planner.ports import Observer, Policy
from services.planner.protocols import EpisodeProtocol
from services.planner.stage import Stage
from services.planner.workflow.pipeline import Pipeline
from services.planner.workflow.protocol import Workflow

AnyProtocol = EpisodeProtocol | Workflow
Player = Loop | Pipeline


def player(
    episode: Episode,
    protocol: AnyProtocol,
    policy: Policy,
    stage: Stage,
    observer: Observer,
    cut_short: Step | None = None,
) -> Player:
    """Create the executor of one episode; ``cut_short`` is a step that a previous worker did not finish."""
    if isinstance(protocol, Workflow):
        return Pipeline(episode, protocol, policy, stage, observer, cut_short)
    return Loop(episode, protocol, policy, stage, observer, cut_short)

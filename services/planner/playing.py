"""Which player plays a protocol: the agent's loop, or the fixed pipeline."""

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
    """The player of one episode; ``cut_short`` is the step in which an earlier worker left it."""
    if isinstance(protocol, Workflow):
        return Pipeline(episode, protocol, policy, stage, observer, cut_short)
    return Loop(episode, protocol, policy, stage, observer, cut_short)

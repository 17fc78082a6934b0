"""Rollouts from planner's service: asked for, followed over broken streams, recorded, and turned into batches."""

from trainers.rollouts.source import PlannerRollouts

__all__ = ["PlannerRollouts"]

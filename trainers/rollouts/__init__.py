"""Rollouts from the planner service: requested, resumed after broken streams, recorded, and converted to batches."""

from trainers.rollouts.source import PlannerRollouts

__all__ = ["PlannerRollouts"]

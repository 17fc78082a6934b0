"""Rollouts from the planner service: requested, resumed after broken streams, recorded, and converted to batches."""

from fathom.trainers.rollouts.source import PlannerRollouts

__all__ = ["PlannerRollouts"]

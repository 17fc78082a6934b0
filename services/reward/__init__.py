"""Reward: grades answers against references, for trainers and for production monitoring alike.

It never sees a trajectory's tools and never calls a model without being asked to judge.
"""

"""Planner: owns the episode. A user's turn (Run) and a training rollout (Rollout) are the same loop over the
same tools; it records every step, so that a crashed worker's run continues elsewhere.

It never tokenises, ranks, computes or judges: policy, retrieval, datafetch, sandbox and reward do.
"""

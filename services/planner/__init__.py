"""Planner: runs research episodes and records every step, so that another worker can resume a crashed run.

A user's turn (Run) and a training rollout (Rollout) use the same loop over the same tools. Tokenization, ranking,
computation and judging are left to policy, retrieval, datafetch, sandbox and reward.
"""

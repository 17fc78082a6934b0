"""Shadow evaluation of new weights: questions of users are played again by a candidate, and compared before it serves.

Run by ``fathom shadow``: ``compare`` over recorded runs, ``watch`` over a share of the runs as they end. Both models
play each mirrored question as rollouts in the lane ``training``, which yields to users, with tools that only read or
with recorded results, and nothing reaches a conversation. A gate over the win rate and its confidence interval says
whether the candidate may be promoted.
"""

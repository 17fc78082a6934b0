"""Training: pure functions on tensors, and one training loop per algorithm.

A trainer imports no service and contains no agent loop: it requests rollouts from the planner, which has them graded by
the reward service, and publishes weights for the policy service to serve.
"""

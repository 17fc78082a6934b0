"""Training: pure functions on tensors, one readable loop per algorithm. A trainer imports no service and holds
no agent loop: it asks planner for rollouts, reward grades them there, and policy serves what it publishes.
"""

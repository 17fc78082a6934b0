"""Graders: pure functions from an answer and its references to a score, shared by the reward service and trainers."""

"""Graders: pure functions from an answer and its references to a score, for the reward service and trainers alike."""

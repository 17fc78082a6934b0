"""Conversations read back: the question with its calls, and the material that a stage is asked with."""

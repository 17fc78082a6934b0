"""Learners in plain torch, one rank each. ``trainers.workers`` decides where they run and how many there are."""

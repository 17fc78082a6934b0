"""Learners: plain torch, one rank each. Where they run and how many of them there are is ``trainers.workers``'."""

"""Learners in plain torch, one rank each. ``learners.ranks.groups`` decides where they run and how many there are."""

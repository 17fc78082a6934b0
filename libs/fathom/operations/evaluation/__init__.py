"""Shipped evaluation sets: questions with references whose numbers are computed from the bundled data.

An item has a question, a reference answer, its sources, and for each number of the reference the query that computes
it. Answers are scored by the figures that they state, and ranked against the reference by ``operations.ranking``.
"""

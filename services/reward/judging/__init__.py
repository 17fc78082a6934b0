"""The pairwise judge: a model of the role ``judge`` compares two answers, in both orders and with several votes.

Sources: arXiv 2506.00103 (pairwise generative judge), 2504.02495 (principles and critiques before scores).
"""

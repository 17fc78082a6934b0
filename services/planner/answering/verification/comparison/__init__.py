"""Comparisons that an answer makes in words, against the tables of the run."""

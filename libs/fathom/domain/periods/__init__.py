"""Periods in English and Chinese text: a grammar of words and patterns, and what its expressions stand for."""

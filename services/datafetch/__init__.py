"""Datafetch: a question or a typed query becomes tables with units, sources and what is missing.

It never guesses a number: what it does not have comes back as a missing item with the nearest names.
"""

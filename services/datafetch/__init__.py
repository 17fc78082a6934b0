"""Datafetch: answers questions and typed queries with tables, their units and sources, and a list of what is missing.

It never guesses a number: data that it lacks are reported as missing items with the nearest known names.
"""

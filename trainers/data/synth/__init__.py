"""Synthetic tasks with verifiable answers over the bundled data, by scenario.

``search`` asks for a fact stated in one document, ``code`` for a computed value, ``table`` for a value in the tables.
Every answer is computed from the data when a task is generated; the same data, seed and count give the same tasks. A
task names its grader, the tools it is about, and a sequence of tool calls that solves it.
"""

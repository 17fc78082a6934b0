"""Reference policy ``rules``: deterministic, without a neural network, in the formats of the real ones.

It sees what a model would see (question, available tools, tool results) and nothing else, and never writes a number
that no tool returned.
"""

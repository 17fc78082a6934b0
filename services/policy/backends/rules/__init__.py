"""The reference policy ``rules``: deterministic, without any network, in the formats of the real ones.

It sees what a model would see (question, tools on offer, tool results) and nothing else, and it writes no
number that no tool returned.
"""

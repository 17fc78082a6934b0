"""The reference policy: a deterministic stand-in for a language model, as pure functions over a conversation.

It sees what a model would see (question, tools, results) and decides from typed readings of the data tool. It states
no number that no tool returned, and refuses by name what it cannot compute.
"""

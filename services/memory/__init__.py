"""Memory service: stores conversations and returns the part that goes into the next prompt.

It never calls a model and deletes nothing unless asked or configured to.
"""

"""Memory: keeps conversations and gives the part that goes into the next prompt.

It never calls a model and never forgets without being told or configured to.
"""

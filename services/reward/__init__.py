"""Reward: grades and judges answers, and gives process rewards, for trainers and for production monitoring alike.

It runs no tool of an agent, and calls a model only when it is asked to judge; cells that it grades run in the sandbox.
"""

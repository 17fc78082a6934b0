"""Reward service: grades and judges answers, and computes process rewards, for trainers and production monitoring.

It runs no agent tools, and calls a model only to judge; cells to be graded run in the sandbox.
"""

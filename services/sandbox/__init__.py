"""Sandbox: runs model-written Python in sessions, each a worker process of its own; answers what it printed,
drew, changed and cost.

It never unpickles, evaluates or trusts what a worker sends, and never gives code a way to call tools.
"""

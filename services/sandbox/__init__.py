"""Sandbox service: runs model-written Python in sessions, with one worker process per session.

It returns what the code printed, displayed, changed and used. It never unpickles, evaluates or trusts what a worker
sends, and gives code no way to call tools.
"""

"""Walls of a session, built from the inside by trusted code before any of the session's own runs.

Everything here runs single-threaded in the fork server, or in the init process and the worker that descend from it,
with nothing but the standard library and ``system_calls``; ``plan``, ``status`` and parts of ``kernel`` and
``landlock`` serve the supervisor too. Sources of the figures and of the order of the layers: user_namespaces(7),
landlock(7), seccomp(2), capabilities(7), mount_setattr(2), pivot_root(2).
"""

"""The walls around one session, built from the inside by trusted code before any of the session's own runs.

Everything here runs in the fork server or in its children, single-threaded, with nothing but the
standard library. Figures and order of the layers: kernel documentation of user_namespaces(7),
landlock(7), seccomp(2), capabilities(7), mount_setattr(2), pivot_root(2).
"""

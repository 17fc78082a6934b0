"""Inside the jail: the fork server, the init process of each session, and the worker that runs untrusted code.

``fork_server`` and ``jail`` are trusted and run before a session's code does: they build the walls with the rights that
these take, then give the rights up. ``worker``, ``display``, ``preload`` and ``sheets`` share a process with untrusted
code, which can change them: nothing that they say is trusted outside. The processes have no network, no credentials and
an empty environment. The code imports nothing of ``front`` or ``supervisor``.
"""

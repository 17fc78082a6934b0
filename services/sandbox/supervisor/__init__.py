"""Supervisor: one process that owns the sessions, with the service's user but without its credentials or network.

It starts the fork server, measures sessions from outside (/proc, control groups), ends them, and reads what workers
send as hostile input. If it is root it may change the users of sessions and make control groups. It has an empty
environment, opens no port, and ends with the service front. It imports nothing of ``front``; of ``inside`` only the
wrappers of system calls (``inside.jail.kernel``, ``inside.jail.landlock``).
"""

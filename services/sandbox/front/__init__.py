"""Service front: code that runs in the service's own process, the only one with a network port and credentials.

It checks what callers send and passes it to the supervisor over ``ipc``. It imports neither ``supervisor`` nor
``inside``: no code of a session, and nothing that a session has written, is read here except as checked records.
"""

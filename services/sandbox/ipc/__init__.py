"""Protocols between the sandbox's processes: messages, frames and shared memory, imported by both ends of each.

| between | modules |
|---|---|
| service front and supervisor | ``channel``, ``messages``, ``memfd`` |
| supervisor and worker (hostile) | ``frames``, ``memfd`` |
| supervisor, fork server and init process | ``plan``, ``status`` |
| whoever starts a process, or names an isolation level | ``programs``, ``levels`` |

The code has no rights of its own and imports nothing of ``front``, ``supervisor`` or ``inside``. Nothing is unpickled.
"""

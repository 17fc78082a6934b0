"""Short messages between supervisor and a session's trusted processes, fork server and init: one datagram each.

Descriptors may be sent along.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Sequence
from typing import Any

# Messages hold one short record; errors are cut to 400 characters.
MAX_BYTES = 2_048
INTERRUPT, END = b"interrupt", b"end"
SIGNALS = {signal.SIGSTOP: b"pause", signal.SIGCONT: b"continue"}
"""Orders to send a signal to all of a session."""


def send_status(channel: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message; do nothing when the peer is gone."""
    try:
        socket.send_fds(channel, [json.dumps(message).encode()], descriptors)
    except OSError:
        return


def receive_status(channel: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next message with its descriptors; None when the peer is gone."""
    data, descriptors, _, _ = socket.recv_fds(channel, MAX_BYTES, 4)
    return (json.loads(data) if data else None), descriptors

"""The worker: runs untrusted code in this very process, so the supervisor takes what it sends for claims only.

Started as ``python -I worker.py FD ROOT PARENT LIMITS``. What the protocol needs is bound early, so that a
cell that patches ``json`` or ``print`` hurts its own results only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from typing import Any

MAX_VARIABLES = 200
PR_SET_PDEATHSIG = 1


def fence(limits: dict[str, int], parent: int) -> None:
    """Sets the resource limits, never above the hard ones, and our end with the supervisor's."""
    for name, wanted in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            kind = {"MSGQUEUE": 12}[name]  # Linux has it, the module has no name for it
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # The second of CPU is the one between the signal that can be told apart and the end.
        top = value + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else value
        resource.setrlimit(kind, (value, top))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def snapshot(namespace: dict[str, Any], hidden: frozenset[str]) -> dict[str, tuple[int, str]]:
    """Identity and shape of each user variable."""
    return {
        name: (id(value), describe(value)[1])
        for name, value in list(namespace.items())
        if isinstance(name, str) and not name.startswith("_") and name not in hidden
    }


def describe(value: Any) -> tuple[str, str]:
    """Type name, and shape or length."""
    kind = type(value).__name__
    try:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return kind, str(shape)
        return kind, str(len(value)) if hasattr(value, "__len__") and not isinstance(value, type) else ""
    except Exception:  # properties of the cell's own classes
        return kind, ""


def variables(namespace: dict[str, Any], names: list[str]) -> list[dict[str, str]]:
    """Name, type and shape, sorted by name, at most 200."""
    found = []
    for name in sorted(names)[:MAX_VARIABLES]:
        kind, shape = describe(namespace[name])
        found.append({"name": name[:200], "type": kind[:200], "shape": shape[:200]})
    return found


class Channel:
    """Frames over the one inherited socket."""

    def __init__(self, fd: int) -> None:
        from services.sandbox.wire import HEADER, length, pack, unpack

        sock = socket.socket(fileno=fd)
        self._recv, self._sendall = sock.recv, sock.sendall
        self._pack, self._unpack, self._length, self._header = pack, unpack, length, HEADER.size
        self.nonce = ""

    def send(self, message: dict[str, Any]) -> None:
        self._sendall(self._pack({**message, "nonce": self.nonce}))

    def receive(self) -> dict[str, Any] | None:
        """The next request; None when the supervisor is gone."""
        header = self._read(self._header)
        body = None if header is None else self._read(self._length(header))
        return None if body is None else self._unpack(body)

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            chunk = self._recv(size - len(data))
            if not chunk:
                return None
            data += chunk
        return bytes(data)


class Worker:
    """Answers the supervisor's requests one at a time."""

    def __init__(self, channel: Channel) -> None:
        import numpy
        import pandas

        from services.sandbox import display, preload

        self._channel = channel
        self._capture = display.Capture(channel.send)
        self._shell = display.make_shell(self._capture)
        self._run_cell, self._error_reply, self._flush = display.run_cell, display.error_reply, display.flush
        self._signal, self._default, self._ignore = signal.signal, signal.default_int_handler, signal.SIG_IGN
        self._namespace: dict[str, Any] = self._shell.user_ns
        self._namespace.update(pd=pandas, np=numpy, to_date=preload.to_date)
        pandas.set_option("display.width", 160, "display.max_columns", 20)
        # A first cell warms the compiler's caches, off the path of a request.
        self._run_cell(self._shell, 0, "1 + 1")
        self._capture.reset()
        self._namespace.pop("_", None)
        self._hidden = frozenset(self._namespace)

    def serve(self) -> None:
        """Until the supervisor closes the socket. An interrupt that comes late, between two cells, means nothing."""
        self._signal(signal.SIGINT, self._ignore)
        self._channel.send({"kind": "done"})
        actions = {"execute": self._execute, "inject": self._inject, "variables": self._variables}
        while (request := self._channel.receive()) is not None:
            self._channel.nonce = request["nonce"]
            try:
                try:
                    self._signal(signal.SIGINT, self._default)
                    reply = actions[request["kind"]](request)
                finally:
                    self._signal(signal.SIGINT, self._ignore)
            except BaseException as error:
                self._signal(signal.SIGINT, self._ignore)
                reply = self._error_reply(error)
            self._channel.send({"kind": "done", **reply})

    def _execute(self, request: dict[str, Any]) -> dict[str, Any]:
        open_streams()
        self._capture.reset()
        before = snapshot(self._namespace, self._hidden)
        error = self._run_cell(self._shell, request["cell"], request["code"])
        self._flush()
        after = snapshot(self._namespace, self._hidden)
        changed = [name for name, state in after.items() if before.get(name) != state]
        reply: dict[str, Any] = {
            "result": self._capture.result,
            "variables": variables(self._namespace, changed),
        }
        return reply if error is None else reply | self._error_reply(error)

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        import pyarrow

        with pyarrow.memory_map(request["path"]) as file, pyarrow.ipc.open_stream(file) as reader:
            self._namespace[request["name"]] = reader.read_all().to_pandas(ignore_metadata=True)
        return {}

    def _variables(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"variables": variables(self._namespace, list(snapshot(self._namespace, self._hidden)))}


def open_streams() -> None:
    """Streams of the cell's own over the pipes, whatever the last cell has done to its. Line by line, so that
    output keeps its order with that of child processes."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(fd, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def main() -> None:
    """The process's whole life."""
    fd, root, parent, limits = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    fence(limits, parent)
    sys.path.insert(0, root)
    Worker(Channel(fd)).serve()
    os._exit(0)


if __name__ == "__main__":
    main()

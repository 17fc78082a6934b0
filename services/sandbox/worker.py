"""The worker: IPython's ``InteractiveShell`` behind one socket. It runs untrusted code in this very process,
so nothing here is trusted by the supervisor: its frames are claims, its end is a fact.

Started as ``python -I worker.py FD ROOT LIMITS``. Functions of the protocol are bound early, so that a cell that
patches ``json`` or ``print`` hurts its own results only.
"""

from __future__ import annotations

import base64
import io
import json
import os
import resource
import sys
import traceback
from typing import Any

MEDIA_TYPES = ("application/vnd.plotly.v1+json", "image/png", "text/html")
MAX_DISPLAYS, MAX_DISPLAY_BYTES = 20, 8 * 1024 * 1024
MAX_TEXT, MAX_TRACEBACK, MAX_VARIABLES = 32 * 1024, 32 * 1024, 200
CELL_FILE = "<cell {}>"


def make_shell(capture: Capture) -> Any:
    """A shell without history, colours and threads; what cells display goes to ``capture``."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Hook(DisplayHook):
        """The value of a cell's last expression."""

        shell: Any

        def __call__(self, result: Any = None) -> None:
            if result is not None:
                bundle, _ = self.shell.display_formatter.format(result)
                capture.last(bundle)
                self.shell.user_ns["_"] = result

    class Publisher(DisplayPublisher):
        """``display`` and ``fig.show()``."""

        def publish(self, data: dict[str, Any], *args: Any, **rest: Any) -> None:
            if not capture.add(data):
                print(data.get("text/plain", ""))

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def showtraceback(self, *args: Any, **kwargs: Any) -> None:
            """Errors travel in the reply, not on stderr."""

        def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
            """Likewise."""

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell: Any = Shell.instance(config=config)
    shell.display_formatter.active_types = ["text/plain", *MEDIA_TYPES]
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type_by_name("plotly.basedatatypes", "BaseFigure", plotly_bundle)
    return shell


def plotly_bundle(figure: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """A figure as plotly JSON."""
    return {"application/vnd.plotly.v1+json": figure.to_json()}


class Capture:
    """Takes what a cell displays: results of last expressions, ``display`` calls, ``fig.show()``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the next cell."""
        self.displays: list[dict[str, str]] = []
        self.result = ""
        self.bytes = 0

    def last(self, bundle: dict[str, Any]) -> None:
        """The last expression. HTML of a frame is for a page; its text is what a model reads."""
        rich = {kind: data for kind, data in bundle.items() if kind != "text/html"}
        if not self.add(rich):
            self.result = str(bundle.get("text/plain", ""))[:MAX_TEXT]

    def add(self, bundle: dict[str, Any]) -> bool:
        """Keeps the richest allowed type of a bundle; False when it has none."""
        for kind in MEDIA_TYPES:
            if kind not in bundle:
                continue
            data = bundle[kind]
            encoded = data if isinstance(data, str) and kind == "image/png" else to_base64(data)
            if len(self.displays) < MAX_DISPLAYS and self.bytes + len(encoded) <= MAX_DISPLAY_BYTES:
                self.bytes += len(encoded)
                self.displays.append({"media_type": kind, "data": encoded})
            return True
        return False


def to_base64(data: Any) -> str:
    if isinstance(data, dict):
        data = json.dumps(data)
    raw = data if isinstance(data, bytes) else str(data).encode()
    return base64.b64encode(raw).decode()


def snapshot(namespace: dict[str, Any], hidden: frozenset[str]) -> dict[str, tuple[int, str]]:
    """Identity and description of each user variable."""
    return {
        name: (id(value), describe(value)[1])
        for name, value in namespace.items()
        if not name.startswith("_") and name not in hidden
    }


def describe(value: Any) -> tuple[str, str]:
    """Type name, and shape or length."""
    try:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return type(value).__name__, str(shape)
        if isinstance(value, (str, bytes, list, tuple, dict, set)):
            return type(value).__name__, str(len(value))
    except Exception:
        return type(value).__name__, "?"
    return type(value).__name__, ""


def variables(namespace: dict[str, Any], names: list[str]) -> list[dict[str, str]]:
    found = []
    for name in sorted(names)[:MAX_VARIABLES]:
        kind, shape = describe(namespace[name])
        found.append({"name": name, "type": kind, "shape": shape})
    return found


def format_error(error: BaseException) -> str:
    """The traceback from the cell on; frames of the shell and of this file are left out."""
    try:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "IPython" not in f.filename and f.filename != __file__]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
        lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)[-MAX_TRACEBACK:]
    except Exception:
        return f"{type(error).__name__} (its traceback cannot be shown)"


class Worker:
    """Answers the supervisor's requests one at a time."""

    def __init__(self, fd: int) -> None:
        import socket

        from services.sandbox import preload
        from services.sandbox.wire import HEADER, length, pack, unpack

        self._socket = socket.socket(fileno=fd)
        self._pack, self._unpack, self._length, self._header = pack, unpack, length, HEADER.size
        self._capture = Capture()
        self._shell = make_shell(self._capture)
        import numpy
        import pandas

        self._namespace = self._shell.user_ns
        self._namespace.update(pd=pandas, np=numpy, to_date=preload.to_date)
        # A first cell warms the compiler's caches, off the path of a request.
        self._shell.run_cell("1 + 1", store_history=False)
        self._hidden = frozenset(self._namespace)

    def serve(self) -> None:
        self._send({"kind": "ready"})
        actions = {"execute": self._execute, "inject": self._inject, "variables": self._variables}
        while (request := self._receive()) is not None:
            try:
                reply = actions[request["kind"]](request)
            except KeyboardInterrupt:
                reply = {"error_name": "KeyboardInterrupt", "error_value": "", "traceback": ""}
            self._send({"kind": "done", "nonce": request["nonce"], **reply})

    def _execute(self, request: dict[str, Any]) -> dict[str, Any]:
        shell, capture = self._shell, self._capture
        capture.reset()
        before = snapshot(self._namespace, self._hidden)
        outcome = shell.run_cell(request["code"], store_history=False)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        after = snapshot(self._namespace, self._hidden)
        changed = [name for name, state in after.items() if before.get(name) != state]
        error = outcome.error_before_exec or outcome.error_in_exec
        reply: dict[str, Any] = {
            "result": capture.result,
            "displays": capture.displays,
            "changed": variables(self._namespace, changed),
        }
        if error is not None:
            reply |= {
                "error_name": type(error).__name__,
                "error_value": str(error)[:MAX_TEXT],
                "traceback": format_error(error),
            }
        return reply

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        import pyarrow

        with pyarrow.OSFile(request["path"]) as file, pyarrow.ipc.open_stream(file) as reader:
            self._namespace[request["name"]] = reader.read_all().to_pandas(ignore_metadata=True)
        return {}

    def _variables(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"variables": variables(self._namespace, list(snapshot(self._namespace, self._hidden)))}

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(self._pack(message))

    def _receive(self) -> dict[str, Any] | None:
        header = self._read(self._header)
        return None if header is None else self._unpack(self._read(self._length(header)) or b"")

    def _read(self, size: int) -> bytes | None:
        buffer = io.BytesIO()
        while buffer.tell() < size:
            chunk = self._socket.recv(size - buffer.tell())
            if not chunk:
                return None
            buffer.write(chunk)
        return buffer.getvalue()


def restrict(wanted: dict[str, int]) -> None:
    """Sets rlimits, never above the present hard ones, for this process and all that it starts."""
    for name, limit in wanted.items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        # A second of CPU between the catchable signal and the end.
        spare = 1 if name == "RLIMIT_CPU" and hard == resource.RLIM_INFINITY else 0
        resource.setrlimit(kind, (value, value + spare))


def main() -> None:
    fd, root = int(sys.argv[1]), sys.argv[2]
    restrict(json.loads(sys.argv[3]))
    for stream in (sys.stdout, sys.stderr):
        # Line by line, so that output keeps its order with that of child processes.
        stream.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
    sys.path.insert(0, root)
    Worker(fd).serve()
    os._exit(0)


if __name__ == "__main__":
    main()

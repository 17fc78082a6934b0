"""Worker process of a session: runs untrusted code in this very process, so its frames are only claims.

It is created and warmed up in the fork server; each session runs in a fork of it. What the protocol needs is bound
early, so that a cell that patches ``json`` or ``print`` hurts its own results only.
"""

from __future__ import annotations

import random
import signal
import socket
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from fathom.services.sandbox.ipc.frames import NO_NONCE, REQUEST_HEADER, FrameKind, pack_frame, unpack_request


class Channel:
    """Requests and frames over the one inherited socket."""

    def __init__(self, fd: int) -> None:
        sock = socket.socket(fileno=fd)
        self._recv, self._sendall = sock.recv, sock.sendall
        self._sock, self._recv_fds = sock, socket.recv_fds
        self._pack, self._unpack, self._header = pack_frame, unpack_request, REQUEST_HEADER
        self.nonce = NO_NONCE

    def send_result(self, reply: Mapping[str, Any]) -> None:
        """Send the end of a request."""
        texts = [reply.get(field, "") for field in ("result", "traceback", "error_name", "error_value")]
        for variable in reply.get("variables", ()):
            texts += [variable["name"], variable["type"], variable["shape"]]
        self._sendall(self._pack(FrameKind.RESULT, self.nonce, texts))

    def send_display(self, media_type: str, data: bytes) -> None:
        self._sendall(self._pack(FrameKind.DISPLAY, self.nonce, (media_type,), data))

    def receive(self) -> tuple[dict[str, Any] | None, list[int]]:
        """Return the next request and the descriptors that came with it; None when the supervisor is gone."""
        # Descriptors come with the first byte of a message, and only a call that asks for them takes them along.
        first, descriptors, _, _ = self._recv_fds(self._sock, self._header.size, 1)
        header = self._read(self._header.size, first) if first else None
        body = None if header is None else self._read(self._header.unpack(header)[0])
        return (None if body is None else self._unpack(body)), descriptors

    def _read(self, size: int, first: bytes = b"") -> bytes | None:
        data = bytearray(first)
        while len(data) < size:
            chunk = self._recv(size - len(data))
            if not chunk:
                return None
            data += chunk
        return bytes(data)


class Worker:
    """Server for the supervisor's requests, one at a time."""

    def __init__(self) -> None:
        import numpy
        import pandas
        import pyarrow

        from fathom.services.sandbox.inside import (
            display,
            explanations,
            figures,
            namespace,
            preload,
            streams,
            variables,
        )
        from fathom.services.sandbox.inside.sheets import Sheets
        from fathom.services.sandbox.inside.tables import TableDisplay

        # Arrow would start a thread per core of the machine when a session first needs its pool.
        pyarrow.set_cpu_count(1)
        pyarrow.set_io_thread_count(1)
        self._gate = streams.OutputGate()
        self._capture = display.DisplayCapture(self._gate)
        self._figures = figures.FigureDisplay(self._capture.add)
        self._shell = display.make_shell(self._capture, self._figures)
        self._run_cell, self._error_reply, self._flush = display.run_cell, display.describe_error, display.flush
        self._open_streams, self._explain = streams.open_streams, explanations.explain_error
        self._snapshot, self._describe = variables.snapshot_variables, variables.describe_variables
        self._max_variables = variables.MAX_VARIABLES
        self._signal, self._default, self._ignore = signal.signal, signal.default_int_handler, signal.SIG_IGN
        self._reseed = numpy.random.seed
        self._namespace: dict[str, Any] = self._shell.user_ns
        self._namespace.update(pd=pandas, np=numpy, to_date=namespace.to_date, finance=namespace.finance)
        self._sheets = Sheets(self._namespace)
        tables = TableDisplay(self._capture.add, self._sheets.is_unchanged)
        self._namespace["show_table"] = tables.show_table
        bundles = self._shell.display_formatter.mimebundle_formatter
        for kind in (pandas.DataFrame, pandas.Series):
            bundles.for_type(kind, tables.make_bundle)
        bundles.for_type_by_name("pandas.io.formats.style", "Styler", tables.make_styled_bundle)
        # A frame travels as a table of typed columns; without the option pandas would write it as HTML besides.
        pandas.set_option("display.width", 160, "display.max_columns", 20, "display.notebook_repr_html", False)
        self._hidden = frozenset(self._namespace)
        self._warm_up(preload.WARM_UP_CELLS)

    def _warm_up(self, cells: Iterable[str]) -> None:
        """Run cells whose compiling, caching and importing every session would repeat; raise a cell's error.

        Where the session's user cannot read the runtime, a cell has no other modules than those imported here.
        """
        for code in cells:
            error = self._run_cell(self._shell, self._figures, 0, code)
            if error is not None:
                raise error
        self._capture.reset()
        for name in self._namespace.keys() - self._hidden:
            del self._namespace[name]

    def serve(self, descriptor: int) -> None:
        """Answer requests until the supervisor closes the socket."""
        # Until the first cell: an interrupt while the session is being built would end it.
        self._signal(signal.SIGINT, self._ignore)
        # A copy must not draw the same numbers as its siblings.
        random.seed()
        self._reseed()
        sys.argv = [""]
        self._channel = channel = Channel(descriptor)
        self._capture.send = channel.send_display
        channel.send_result({})
        actions = {"execute": self._execute, "inject": self._inject, "variables": self._variables}
        while True:
            request, descriptors = channel.receive()
            if request is None:
                return
            # Echoed in every frame; the supervisor ends a session that sends any other.
            channel.nonce = request["nonce"]
            try:
                try:
                    # Only here: an interrupt that comes late, between two cells, means nothing.
                    self._signal(signal.SIGINT, self._default)
                    reply = actions[request["kind"]](request, descriptors)
                finally:
                    self._signal(signal.SIGINT, self._ignore)
            except BaseException as error:  # a cell may raise SystemExit or KeyboardInterrupt; the session goes on
                self._signal(signal.SIGINT, self._ignore)
                reply = self._error_reply(error)
            channel.send_result(reply)

    def _execute(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._gate.open()
        try:
            return self._run(request)
        finally:
            self._gate.close()

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a cell and return its reply."""
        self._open_streams(self._gate)
        self._capture.reset()
        # Before the look at the variables: loading a sheet is not the cell's own change.
        self._sheets.load_named(request["code"])
        # By identity and shape: cheap, and blind only to changes in place that keep the shape.
        before = self._snapshot(self._namespace, self._hidden)
        error = self._run_cell(self._shell, self._figures, request["cell"], request["code"])
        self._flush()
        after = self._snapshot(self._namespace, self._hidden)
        changed = [name for name, state in after.items() if before.get(name) != state]
        reply: dict[str, Any] = {
            "result": self._capture.result,
            "variables": self._describe(self._namespace, changed),
        }
        if error is None:
            return reply
        self._explain(error)
        return reply | self._error_reply(error)

    def _inject(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._sheets.put(request["name"], descriptors[0], request["lazy"], request["loaded_bytes"], request["facts"])
        return {}

    def _variables(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        found = self._describe(self._namespace, list(self._snapshot(self._namespace, self._hidden)))
        found += self._sheets.list_unloaded()
        return {"variables": sorted(found, key=lambda item: item["name"])[: self._max_variables]}

"""Supervisor process: owns the sessions, their deadlines, control groups and files, and holds no credentials.

It is started by ``ipc.programs.SUPERVISOR``, opens no port, has a clean environment, and ends with the service front.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, cast

from fathom.core.errors import FathomError, Internal, NotReady
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.inside.jail.kernel import end_with_parent
from fathom.services.sandbox.ipc import messages as say
from fathom.services.sandbox.ipc.channel import DatagramChannel, Message
from fathom.services.sandbox.ipc.owner import Owner, SessionRequest
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.host.scheduling import go_first
from fathom.services.sandbox.supervisor.servicer import Context, SupervisorServicer

# For files of sessions, readings of /proc and endings; none computes for long.
THREADS = 8


class Supervisor:
    """Server that answers the front's requests with an engine, each in a task of its own."""

    def __init__(self, end: socket.socket) -> None:
        self.left = asyncio.Event()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._engine: Engine | None = None
        self._channel = DatagramChannel(end, self._take, self.left.set)

    def _take(self, message: Message) -> None:
        number = message.number
        if message.kind == say.CANCEL:
            if number in self._calls:
                self._calls[number].cancel()
            return
        # A task each: a cell may run for seconds while other sessions ask for other things.
        task = self._calls[number] = asyncio.create_task(self._answer(message))
        task.add_done_callback(lambda _: self._calls.pop(number, None))

    async def _answer(self, message: Message) -> None:
        context = Context(message.tenant, message.attached, message.lane)
        try:
            if message.kind == say.START:
                await self._start(message.body)
                await self._run("GetIsolation", b"", message.number, context)
            else:
                await self._run(message.kind, message.body, message.number, context)
            self._channel.post(Message(message.number, say.END))
        except FathomError as error:
            self._post(message.number, say.FAILURE, say.to_failure(error))
        except Exception as error:  # a defect must cost one request, not every session of this process
            self.error("supervisor failed", error=f"{type(error).__name__}: {error}")
            self._post(message.number, say.FAILURE, say.to_failure(Internal("the sandbox failed; see its log")))
        finally:
            context.close()

    async def _run(self, method: str, body: bytes, number: int, context: Context) -> None:
        """Call the servicer's method and send its responses."""
        request = say.parse_request(method, body)
        if self._engine is None:
            raise NotReady("the supervisor has not been started")
        # Here for all methods alike: whatever is asked about a session is asked by who opened it.
        if "session_id" in request.DESCRIPTOR.fields_by_name:
            about: SessionRequest = cast("SessionRequest", request)
            self._engine.require_owner(about.session_id, Owner(context.tenant, about.run_id))
        result = getattr(SupervisorServicer(self._engine), method)(request, context)
        if not say.METHODS[method].server_streaming:
            self._channel.post(Message(number, say.RESPONSE, (await result).SerializeToString()))
            return
        async with aclosing(result) as responses:
            async for response in responses:
                self._channel.post(Message(number, say.RESPONSE, response.SerializeToString()))
                # Events wait in the session's recording, which is bounded, and not in the channel's queue.
                await self._channel.wait_for_room()

    async def _start(self, settings: bytes) -> None:
        if self._engine is None:
            engine = Engine(Config.model_validate_json(settings), self, self._note)
            await engine.start()
            self._engine = engine

    def _note(self, name: str, label: str, value: float) -> None:
        self._post(0, say.MEASUREMENT, say.Measurement(name, label, value))

    def _post(self, number: int, kind: str, record: Any) -> None:
        self._channel.post(Message(number, kind, say.RECORDS[kind].dump_json(record)))

    def info(self, text: str, **fields: Any) -> None:
        self._post(0, say.LOG_LINE, say.LogLine("info", text, fields))

    def warning(self, text: str, **fields: Any) -> None:
        self._post(0, say.LOG_LINE, say.LogLine("warning", text, fields))

    def error(self, text: str, **fields: Any) -> None:
        self._post(0, say.LOG_LINE, say.LogLine("error", text, fields))

    async def close(self) -> None:
        """Cancel the running requests, then end every session."""
        for task in list(self._calls.values()):
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()
        self._channel.close()


async def serve(end: socket.socket) -> None:
    """Answer requests until the front closes the socket."""
    # All sessions wait for this loop, which does little at a time, and it for threads that hold Python's lock.
    go_first()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, initializer=go_first))
    supervisor = Supervisor(end)
    await supervisor.left.wait()
    await supervisor.close()


def main() -> None:
    """Run the process; called by ``SUPERVISOR``, which has extended the import path."""
    import uvloop

    end_with_parent()
    # The parent may have died before the line above took effect.
    if os.getppid() != int(sys.argv[2]):
        os._exit(0)
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))

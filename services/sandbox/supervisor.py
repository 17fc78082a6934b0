"""Supervisor process: owns the sessions, their deadlines, control groups and files, and holds no credentials.

Its program, ``BOOT``, takes the arguments FD PARENT PATH…: the socket to the service front, the front's process id,
and the folders to import from. It opens no port, has a clean environment, and ends with the front.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import aclosing
from typing import Any

from pydantic import TypeAdapter

from fathom.errors import FathomError, Internal, NotReady
from services.sandbox import messages as say
from services.sandbox.config import Config
from services.sandbox.engine import Engine
from services.sandbox.events import Display
from services.sandbox.jail.kernel import end_with_parent
from services.sandbox.link import Link, Message
from services.sandbox.memory import sealed

BOOT = "import sys; sys.path[:0] = sys.argv[3:]; from services.sandbox.supervisor import main; main()"
ANY: TypeAdapter[Any] = TypeAdapter(Any)


class Supervisor:
    """Server that answers the front's requests with an engine, each in a task of its own."""

    def __init__(self, end: socket.socket) -> None:
        self.left = asyncio.Event()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._engine: Engine | None = None
        self._link = Link(end, self._take, self.left.set)

    def _take(self, message: Message) -> None:
        number = message.number
        if message.kind == "Cancel":
            if number in self._calls:
                self._calls[number].cancel()
            return
        task = self._calls[number] = asyncio.create_task(self._answer(message))
        task.add_done_callback(lambda _: self._calls.pop(number, None))

    async def _answer(self, message: Message) -> None:
        attached = message.attached
        try:
            request = say.REQUESTS[message.kind].validate_json(message.body, strict=True)
            if isinstance(request, say.Inject) and attached is not None:
                table, attached = attached, None  # the engine takes it over
                await self._running().inject(request.session_id, request.name, table, lazy=request.lazy)
                self._link.post(Message(message.number, "Result"))
            elif isinstance(request, say.Execute):
                await self._execute(message.number, request)
                self._link.post(Message(message.number, "End"))
            else:
                content = await asyncio.to_thread(attached.read) if attached is not None else b""
                await self._reply(message.number, await self._result(request, content))
        except FathomError as error:
            self._post(message.number, say.failure(error))
        except Exception as error:
            self.error("supervisor failed", error=f"{type(error).__name__}: {error}")
            self._post(message.number, say.failure(Internal("the sandbox failed; see its log")))
        finally:
            if attached is not None:
                attached.close()

    def _post(self, number: int, record: Any) -> None:
        kind = type(record).__name__
        self._link.post(Message(number, kind, say.REPLIES[kind].dump_json(record)))

    async def _reply(self, number: int, result: Any) -> None:
        if isinstance(result, bytes):
            content = await asyncio.to_thread(sealed, "content", result)
            self._link.post(Message(number, "Result", attached=content))
        else:
            self._link.post(Message(number, "Result", ANY.dump_json(result)))

    async def _execute(self, number: int, request: say.Execute) -> None:
        cell = (request.session_id, request.request_id, request.code, request.wall_ms)
        async with aclosing(self._running().execute(*cell)) as events:
            async for event in events:
                if isinstance(event, Display):
                    body = say.REPLIES["Picture"].dump_json(say.Picture(event.media_type))
                    self._link.post(Message(number, "Picture", body, sealed("display", event.data)))
                else:
                    self._post(number, event)
                await self._link.drained()

    def _running(self) -> Engine:
        if self._engine is None:
            raise NotReady("the supervisor has not been started")
        return self._engine

    async def _result(self, request: say.Request, content: bytes) -> Any:
        """Return the answer to any request but ``Execute`` and ``Inject``."""
        match request:
            case say.Ping():
                return None
            case say.Start():
                return await self._start(request.settings)
        return await asked(self._running(), request, content)

    async def _start(self, settings: dict[str, Any]) -> Any:
        if self._engine is None:
            engine = Engine(Config(**settings), self, lambda *measured: self._post(0, say.Note(*measured)))
            await engine.start()
            self._engine = engine
        return self._engine.report

    def info(self, text: str, **fields: Any) -> None:
        self._post(0, say.Line("info", text, fields))

    def warning(self, text: str, **fields: Any) -> None:
        self._post(0, say.Line("warning", text, fields))

    def error(self, text: str, **fields: Any) -> None:
        self._post(0, say.Line("error", text, fields))

    async def close(self) -> None:
        """Cancel the running requests, then end every session."""
        for task in list(self._calls.values()):
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()
        self._link.close()


async def asked(engine: Engine, request: say.Request, content: bytes) -> Any:
    """Return the engine's answer, bytes for a file's content; raise ``Internal`` for ``Inject`` without a table."""
    match request:
        case say.Open():
            return await engine.open_session(request.request_id, request.limits, request.tenant)
        case say.Variables():
            return await engine.variables(request.session_id)
        case say.Interrupt():
            return await engine.interrupt(request.session_id)
        case say.Restart():
            return await engine.restart(request.session_id)
        case say.Close():
            return await engine.close_session(request.session_id)
        case say.PutFile():
            return await engine.put_file(request.session_id, request.path, content)
        case say.GetFile():
            return await engine.get_file(request.session_id, request.path)
        case say.ListFiles():
            return await engine.files(request.session_id)
    raise Internal(f"{type(request).__name__} without what belongs to it")


async def serve(end: socket.socket) -> None:
    """Answer requests until the front closes the socket."""
    supervisor = Supervisor(end)
    await supervisor.left.wait()
    await supervisor.close()


def main() -> None:
    """Run the process; called by ``BOOT``, which has extended the import path."""
    import uvloop

    end_with_parent()
    # The parent may have died before the line above took effect.
    if os.getppid() != int(sys.argv[2]):
        os._exit(0)
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))

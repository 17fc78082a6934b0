"""Control requests to the planner that works on a run: stop it, change its todo list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, FathomError, InvalidField, NotReady
from fathom.core.ids import new_id
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.model.episode import Step
from fathom.services.planner.model.todo import Todo, TodoItem, read_edited_items, validate_items
from fathom.services.planner.runs.log.events import EventLog
from fathom.services.planner.runs.playing.publisher import RunPublisher, is_listing, make_change_id, make_todo_changed
from fathom.services.planner.runs.repository import RunRepository
from fathom.transport.bus.base import Bus, Message
from fathom.transport.bus.streams import control_subject

ACTION, STOP, EDIT = "fathom-action", "stop", "edit-todo"
DONE = b"\x01"
"""Prefix of the reply of a planner that executed the request."""
OUTDATED = b"\x02"
"""Prefix of the reply to an edit of an earlier list; the version of the current one follows."""
# Seconds for the planner that has the run to reply, a store write included.
TIMEOUT_S = 5.0


@dataclass
class RunControl:
    """Handler of control requests for one run while this process works on it."""

    run_id: str
    engine: Engine
    record: RunRepository
    events: EventLog
    observer: RunPublisher
    call: Call
    """Call of the worker: requests come from the bus, which knows no tenant."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def handle(self, message: Message) -> Message:
        """Execute a request; an empty payload means that the run is not active here."""
        with calling(self.call):
            return await self._execute(message)

    async def _execute(self, message: Message) -> Message:
        if message.headers.get(ACTION, STOP) == EDIT:
            return Message(message.subject, await self._edit(pb.UpdateTodoRequest.FromString(message.payload)))
        # A planner that has lost the run still listens for it: it stops playing, and the new one answers.
        if not await self._is_owner():
            self.engine.stop(self.run_id)
            return Message(message.subject, b"")
        return Message(message.subject, DONE if self.engine.stop(self.run_id) else b"")

    async def _is_owner(self) -> bool:
        """Return whether this planner still owns the run; another one may have taken it over."""
        try:
            await self.events.confirm()
        except LeaseLost:
            return False
        except FathomError:
            return True  # the bus is unreachable: assume that this planner still has the run
        return True

    async def _edit(self, request: pb.UpdateTodoRequest) -> bytes:
        """Store and apply an edit of the todo list."""
        items = [TodoItem(item.text, item.state or "open") for item in request.items]
        async with self._turn:
            change = make_todo_changed(validate_items(items), self.observer.steps, request.request_id, by_user=True)
            known = await self.record.get_edit(self.run_id)
            # A repeated request whose answer was lost.
            if known is not None and known.change_id == change.change_id:
                return DONE + pb.UpdateTodoResponse(items=known.items, version=known.change_id).SerializeToString()
            if not self.engine.is_running(self.run_id) or not await self._is_owner():
                return b""
            # Of a planner that does not own the run the version may have passed, so that is asked first.
            if request.HasField("version") and request.version != self.observer.todo_version:
                return OUTDATED + self.observer.todo_version.encode()
            # Stored before it is applied, so that a worker that takes the run over finds it and tells the model.
            await self.record.put_edit(self.run_id, change)
            self.engine.edit_todo(self.run_id, items)
            self.observer.publish_todo(change)
        return DONE + pb.UpdateTodoResponse(items=change.items, version=change.change_id).SerializeToString()

    async def find_unseen_edit(self, steps: Sequence[Step], cut_short: Step | None) -> list[TodoItem] | None:
        """Return the user's latest todo list if no step shows it to the model yet, else None.

        Publish it again for readers.
        """
        change = await self.record.get_edit(self.run_id)
        # Before the repetition below, which changes nothing.
        self.observer.todo_version = find_todo_version([*steps, *([cut_short] if cut_short else [])], change)
        if change is None:
            return None
        self.events.publish(todo_changed=change)
        return None if is_shown(change, [*steps, *([cut_short] if cut_short else [])]) else read_items(change)


async def request_stop(bus: Bus, run_id: str) -> bool:
    """Return whether a worker has the run and ends it; raise ``NotReady`` when none has it."""
    subject = control_subject(run_id)
    reply = await bus.request(subject, b"", headers={ACTION: STOP}, timeout_s=TIMEOUT_S)
    return bool(reply.payload)


async def request_edit(bus: Bus, request: pb.UpdateTodoRequest) -> pb.UpdateTodoResponse:
    """Return the list as stored.

    Raise ``InvalidField`` for a malformed one, ``Conflict`` when no worker has the run, or when the list is of another
    version than the edited one.
    """
    validate_request(request)
    asked = pb.UpdateTodoRequest.FromString(request.SerializeToString())
    asked.request_id = request.request_id or new_id("edit")
    try:
        reply = await bus.request(
            control_subject(request.run_id), asked.SerializeToString(), headers={ACTION: EDIT}, timeout_s=TIMEOUT_S
        )
    except NotReady:
        raise Conflict(f"nobody works on run {request.run_id}", metadata={"field": "run_id"}) from None
    if not reply.payload:
        raise Conflict(f"run {request.run_id} has ended", metadata={"field": "run_id"})
    if reply.payload.startswith(OUTDATED):
        current = reply.payload.removeprefix(OUTDATED).decode()
        message = f"version: the list was changed meanwhile: it is version {current!r}, not {request.version!r}"
        raise Conflict(message, metadata={"field": "version", "version": current})
    return pb.UpdateTodoResponse.FromString(reply.payload.removeprefix(DONE))


def validate_request(request: pb.UpdateTodoRequest) -> None:
    """Raise ``InvalidField`` with the path in the request."""
    try:
        validate_items(TodoItem(item.text, item.state or "open") for item in request.items)
    except InvalidField as error:
        raise InvalidField(error.field.removeprefix("todo."), str(error).partition(": ")[2] or error.message) from None


def read_items(change: pb.TodoChanged) -> list[TodoItem]:
    return [TodoItem(item.text, item.state) for item in change.items]


def is_shown(change: pb.TodoChanged, steps: Sequence[Step]) -> bool:
    """Return whether a step since the edit shows it to the model."""
    items = tuple(read_items(change))
    return any(read_edited_items(message) == items for step in steps[change.step :] for message in step.new_messages)


def find_current_todo(steps: Sequence[Step], change: pb.TodoChanged | None) -> list[pb.TodoItem]:
    """Return the list after these steps and the user's latest edit."""
    items = read_items(change) if change is not None and not is_shown(change, steps) else Todo.from_steps(steps).items
    return [pb.TodoItem(text=item.text, state=item.state) for item in items]


def find_todo_version(steps: Sequence[Step], change: pb.TodoChanged | None) -> str:
    """Return the id of the change after which the list is what it is, as ``find_current_todo`` has it; "" without any.

    ``steps`` may end with one that is not complete.
    """
    if change is not None and not is_shown(change, steps):
        return change.change_id
    version, edited = "", tuple(read_items(change)) if change is not None else None
    for place, step in enumerate(steps):
        # Only the latest edit is stored: the lists of earlier ones are followed by it in any case.
        is_since = change is not None and place >= change.step
        if change is not None and is_since and any(read_edited_items(one) == edited for one in step.new_messages):
            version = change.change_id
        for result in step.results:
            if is_listing(result):
                version = make_change_id(step.index, result)
    return version

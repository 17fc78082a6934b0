"""Earlier turns of a run's conversation: their words as messages, their tables as material under stable names.

A conversation has one series of names: a run begins with the tables of the turn before it, which had those of the turn
before that, and counts on. ``sheet_4`` of one turn is ``sheet_4`` in all later ones, as long as it is among the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fathom.api.datafetch.v1.datafetch_pb2 import GetSheetRequest, Sheet
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.planner.v1.planner_pb2 import RolloutTask, RunRequest
from fathom.api.policy.v1 import policy_pb2 as pb_policy
from fathom.api.policy.v1.policy_pb2 import ROLE_ASSISTANT, ROLE_USER
from fathom.clients import Clients
from fathom.core.errors import CorruptData, InvalidField, NotFound, PermissionDenied
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.proto import message_from_proto
from fathom.domain.consent import Consent
from fathom.services.planner.answering.parsing import Citation, Reference, parse
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.proto.episode import material_from_proto, material_to_proto
from fathom.services.planner.runs.consent import find_run_consent
from fathom.services.planner.runs.repository import Header, RunRepository
from fathom.services.planner.tools.session import read_sheet_number

# A follow-up is mostly about the newest tables, and each is described in the prompt.
MAX_SHEETS, MAX_SHEET_BYTES = 12, 16 * 1024 * 1024
# Messages and characters that a caller may send of a conversation of its own; the window compacts what is too long.
MAX_HISTORY, MAX_HISTORY_CHARS = 64, 65_536
# Titles in place of references that mean nothing any more.
MAX_TITLE_CHARS = 80


@dataclass(frozen=True)
class EarlierTurn:
    """A turn whose answer is shown in full, with all material of its run and the numbers that its answer uses."""

    answer: str
    material: tuple[Material, ...]
    used: frozenset[int]


@dataclass(frozen=True)
class FollowedTurns:
    """Turns that lead to a question: the window of their conversation, and by number those that are shown in full."""

    window: Sequence[memory.WindowTurn] = ()
    in_full: Mapping[int, EarlierTurn] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversation:
    """Part of a conversation that a run is given."""

    history: tuple[Message, ...] = ()
    given: tuple[Material, ...] = ()


async def load_conversation(
    clients: Clients,
    record: RunRepository,
    run_id: str,
    request: RunRequest,
    followed: FollowedTurns,
    is_first: bool,
) -> Conversation:
    """Return the conversation's window as messages, and the tables of its last turns with the caller's own.

    The tables are chosen once, when the run is first played (``is_first``), and then read from its record: material
    numbers must not depend on what is asked elsewhere in the conversation meanwhile.
    """
    history = read_history(request.history)
    if not followed.window and not request.table_ids:
        return Conversation(history)
    stored = await record.get_given(run_id)
    if stored is not None:
        given = tuple(material_from_proto(item) for item in stored)
    elif is_first:
        earlier = choose_sheets(list(followed.in_full.values()))
        given = add_sheets(earlier, await load_sheets(clients, request.table_ids))
        await record.put_given(run_id, [material_to_proto(item) for item in given])
    else:
        given = ()
    return Conversation((*history, *make_messages(followed, given)), given)


async def load_trained_conversation(
    clients: Clients, record: RunRepository, task: RolloutTask, field: str
) -> tuple[Conversation, tuple[Message, ...]]:
    """Return what a run of the task's question in its conversation would be given, and the turns without tables.

    Raises ``InvalidField`` naming a part of ``field`` for a conversation that has not so many turns, and
    ``PermissionDenied`` for one with a run whose user has not consented to training.
    """
    history = read_history(task.history, f"{field}.history")
    if not task.conversation_id:
        return Conversation(history), history
    followed = await load_turns(clients, record, task.conversation_id, task.conversation_turns)
    known = followed.window[-1].number if followed.window else 0
    if known != task.conversation_turns:
        raise InvalidField(f"{field}.conversation_turns", f"is {task.conversation_turns}; there are {known}")
    for turn in followed.window:
        # A turn without a run has nobody who could have consented.
        if not turn.run_id or await find_run_consent(record, turn.run_id) is not Consent.GIVEN:
            raise PermissionDenied(
                f"turn {turn.number} of conversation {task.conversation_id}: its user has not consented to training",
                metadata={"field": f"{field}.conversation_id"},
            )
    given = choose_sheets(list(followed.in_full.values()))
    words = make_messages(followed, ())
    return Conversation((*history, *make_messages(followed, given)), given), (*history, *words)


def list_messages(request: RunRequest, followed: FollowedTurns) -> tuple[Message, ...]:
    """Return the conversation's window as messages without tables, to read a follow-up by."""
    return (*read_history(request.history), *make_messages(followed, ()))


def read_history(turns: Sequence[pb_policy.Message], field: str = "history") -> tuple[Message, ...]:
    """Return the turns that the caller keeps itself; raise ``InvalidField`` for too many or other messages."""
    if len(turns) > MAX_HISTORY:
        raise InvalidField(field, f"has {len(turns)} messages; at most {MAX_HISTORY} are allowed")
    size = sum(len(message.content) for message in turns)
    if size > MAX_HISTORY_CHARS:
        raise InvalidField(field, f"has {size:,} characters; at most {MAX_HISTORY_CHARS:,} are allowed")
    for place, message in enumerate(turns):
        if message.role not in (ROLE_USER, ROLE_ASSISTANT) or not message.content.strip():
            raise InvalidField(f"{field}[{place}]", "must be a text of user or assistant")
    return tuple(message_from_proto(message) for message in turns)


async def validate_parent(clients: Clients, request: RunRequest) -> None:
    """Raise ``InvalidField`` for a turn to follow that the request's conversation does not have."""
    if not request.HasField("parent_turn"):
        return
    if not request.conversation_id:
        raise InvalidField("parent_turn", "is for a conversation_id")
    if request.parent_turn < 0:
        raise InvalidField("parent_turn", "must not be negative")
    asked = memory.GetWindowRequest(conversation_id=request.conversation_id, through=request.parent_turn, max_turns=1)
    known = [turn.number for turn in (await clients.memory.get_window(asked)).turns] if request.parent_turn else [0]
    if known != [request.parent_turn]:
        # Here, where the caller learns of it: a queued run would silently follow another turn.
        raise InvalidField("parent_turn", f"is {request.parent_turn}, which conversation_id has not")


def find_parent(header: Header) -> int | None:
    """Return the turn that the run's is to follow in its conversation; None for the newest.

    A branch of a run has its request, and a conversation of its own.
    """
    request = header.run_request()
    is_said = request.HasField("parent_turn") and request.conversation_id == header.conversation_id
    return request.parent_turn if is_said else None


async def load_followed(clients: Clients, record: RunRepository, request: RunRequest) -> FollowedTurns:
    """Return the turns that lead to the request's question; see ``load_turns``."""
    if request.HasField("parent_turn") and not request.parent_turn:
        return FollowedTurns()
    return await load_turns(clients, record, request.conversation_id, request.parent_turn)


async def load_turns(clients: Clients, record: RunRepository, conversation_id: str, through: int = 0) -> FollowedTurns:
    """Return the turns of a conversation's window; with ``through`` only that one and those that lead to it."""
    if not conversation_id:
        return FollowedTurns()
    asked = memory.GetWindowRequest(conversation_id=conversation_id, through=through)
    window = await clients.memory.get_window(asked)
    # In full are the last turns; of older ones there are points, without references.
    in_full = {turn.number: await load_turn(record, turn) for turn in window.turns if turn.answer}
    return FollowedTurns(window.turns, in_full)


def make_messages(followed: FollowedTurns, given: Sequence[Material]) -> tuple[Message, ...]:
    """Return the turns of a conversation as messages."""
    messages: list[Message] = []
    for turn in followed.window:
        earlier = followed.in_full.get(turn.number)
        answer = rewrite_references(earlier, given) if earlier else "\n".join(f"- {point}" for point in turn.bullets)
        # Providers refuse an empty assistant message, hence the dash.
        messages += [Message(Role.USER, turn.question), Message(Role.ASSISTANT, answer or "-")]
    return tuple(messages)


async def load_turn(record: RunRepository, turn: memory.WindowTurn) -> EarlierTurn:
    """Return a turn with the material of its run; without material when the run's record is gone."""
    try:
        trajectory = await record.get_trajectory(turn.run_id) if turn.run_id else None
    except (NotFound, CorruptData):
        trajectory = None
    if trajectory is None:
        return EarlierTurn(turn.answer, (), frozenset())
    messages = [*trajectory.given, *(item for step in trajectory.steps for item in step.material)]
    material = tuple(material_from_proto(item) for item in messages)
    return EarlierTurn(turn.answer, material, find_used(trajectory, material))


def find_used(trajectory: pb.Trajectory, material: Sequence[Material]) -> frozenset[int]:
    """Return the numbers of the material that the answer cites or places."""
    placed = {event.name for event in parse(trajectory.answer.markdown) if isinstance(event, Reference)}
    return frozenset({*trajectory.answer.cited, *(item.number for item in material if item.variable in placed)})


def choose_sheets(turns: Sequence[EarlierTurn]) -> tuple[Material, ...]:
    """Return the tables to begin with, numbered from 1 in the order of their names; ``turns`` are oldest first.

    At most ``MAX_SHEETS`` with ``MAX_SHEET_BYTES``; those that an answer used come first, then the newest. Where two
    runs have given one name to different tables, the older one gets the next free name.
    """
    named: dict[str, Material] = {}
    ranked: list[tuple[bool, int, Material]] = []
    for age, turn in enumerate(reversed(turns)):
        for item in turn.material:
            known = any(item.item.id == other.item.id for other in named.values()) if is_sheet(item) else True
            if known:
                continue
            variable = item.variable
            if variable in named:
                variable = f"sheet_{max(read_sheet_number(name) for name in list_names(turns, named)) + 1}"
            # Its cell belongs to another run: here it is a table that is there.
            named[variable] = replace(item, variable=variable, computed_by=0)
            ranked.append((item.number in turn.used, -age, named[variable]))
    kept: list[Material] = []
    size = 0
    # Of equal rank the last computed first.
    for _, _, item in sorted(reversed(ranked), key=lambda entry: entry[:2], reverse=True):
        if len(kept) < MAX_SHEETS and size + item.item.data.size_bytes <= MAX_SHEET_BYTES:
            kept.append(item)
            size += item.item.data.size_bytes
    ordered = sorted(kept, key=lambda item: read_sheet_number(item.variable))
    return tuple(replace(item, number=number) for number, item in enumerate(ordered, 1))


async def load_sheets(clients: Clients, table_ids: Sequence[str]) -> list[Sheet]:
    """Return the descriptions of a caller's tables; raises ``NotFound``."""
    return [(await clients.datafetch.get_sheet(GetSheetRequest(sheet_id=ident))).sheet for ident in table_ids]


def add_sheets(given: Sequence[Material], sheets: Sequence[Sheet]) -> tuple[Material, ...]:
    """Return the tables with those of ``sheets`` that are not among them, numbered and named on."""
    found = list(given)
    for sheet in sheets:
        if all(item.item.id != sheet.id for item in found):
            variable = f"sheet_{max((read_sheet_number(item.variable) for item in found), default=0) + 1}"
            found.append(Material(len(found) + 1, MaterialKind.SHEET, sheet, variable))
    return tuple(found)


def list_names(turns: Sequence[EarlierTurn], named: Mapping[str, Material]) -> list[str]:
    """Return all variables of the turns' tables and those given so far."""
    return [*named, *(item.variable for turn in turns for item in turn.material if is_sheet(item))]


def is_sheet(item: Material) -> bool:
    """Return whether a material is a table with a variable."""
    return item.kind is MaterialKind.SHEET and bool(item.variable)


def rewrite_references(turn: EarlierTurn, given: Sequence[Material]) -> str:
    """Return a turn's answer whose citations and tables are those of the new run, and words where nothing is left.

    A table that is there keeps its reference; another one, a figure or a document becomes its title. A citation of a
    document is named once.
    """
    by_id = {item.item.id: item for item in given}
    by_number = {item.number: item for item in turn.material}
    by_name = {item.variable: item for item in turn.material if item.variable}
    figures = {
        figure.id: figure.title
        for item in turn.material
        if item.kind is MaterialKind.CODE
        for figure in item.item.figures
    }
    said: set[int] = set()

    def cite(number: int) -> str:
        item = by_number.get(number)
        if item is None:
            return ""
        if is_sheet(item) and item.item.id in by_id:
            return f"[{by_id[item.item.id].number}]"
        title = item.item.title if item.kind in (MaterialKind.SHEET, MaterialKind.PASSAGE) else ""
        if not title or number in said:
            return ""
        said.add(number)
        return f"({title[:MAX_TITLE_CHARS]})"

    out: list[str] = []
    for event in parse(turn.answer):
        if isinstance(event, Citation):
            text = "".join(cite(number) for number in event.numbers)
            # The blank before a citation that is gone would stand before the full stop.
            if not text and out:
                out[-1] = out[-1].removesuffix(" ")
            out.append(text)
        elif isinstance(event, Reference):
            item = by_name.get(event.name)
            if event.kind == "table" and item is not None and item.item.id in by_id:
                out.append(f"{{{{table:{by_id[item.item.id].variable}}}}}")
            else:
                title = item.item.title if item is not None else figures.get(event.name, "")
                out.append(f"({event.kind}{': ' if title else ''}{title[:MAX_TITLE_CHARS]})")
        else:
            out.append(event.source)
    return "".join(out)

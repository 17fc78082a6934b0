"""Tools ``search_turns`` and ``reuse``: what was said in earlier turns, and their tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.quoting import shorten
from fathom.domain.text.terms import list_words
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.model.turns import EarlierFigure, EarlierTable, TurnFindings, TurnStore
from fathom.services.planner.tools.data.sheets import make_sheets_reply
from fathom.services.planner.tools.documents import DATE, format_day, parse_day
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema

# Turns that are shown for a question, those that are looked through for a table, and what is shown of an answer.
SHOWN, LOOKED_THROUGH, ANSWER_CHARS = 5, 10, 1_200
# What fits equally well is loaded together: two years of one table, say. More would be a guess.
MAX_LOADED = 2
NOTE = "This is memory of earlier turns, not a source: no number may rest on it. Load its table with `reuse`."


@dataclass(frozen=True)
class SearchTurns:
    """Search of the earlier turns of whoever asks."""

    clients: Clients
    turns: TurnStore
    timeout_s: float

    name: ClassVar[str] = "search_turns"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Finds what was asked and answered in earlier turns, also of other conversations with this user, and names"
        " their tables and figures. It is memory, not a source: for numbers load the table with `reuse`."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 2000, "description": "What was talked about."},
        after=DATE,
        before=DATE,
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        request = pb.SearchMemoryRequest(
            question=arguments["query"],
            top_k=SHOWN,
            after=read_day(arguments, "after"),
            before=read_day(arguments, "before"),
        )
        response = await self.clients.memory.search_memory(request, timeout_s=self.timeout_s)
        if not response.pages:
            return Reply(ToolStatus.EMPTY, {"turns": []}, "No earlier turn fits.")
        found = [await self.turns.load(page.turn.run_id) for page in response.pages]
        turns = [describe_turn(page, one) for page, one in zip(response.pages, found, strict=True)]
        # Whoever reads the result should know that a paraphrase may have been missed.
        by_words = response.method == pb.RECALL_METHOD_WORDS
        head = {"turns": turns, **({"method": "words alone: no sentence encoder answered"} if by_words else {})}
        return Reply(ToolStatus.OK, head, "\n\n".join([NOTE, *map(format_turn, response.pages)]))


@dataclass(frozen=True)
class Reuse:
    """Loading of tables and figures of earlier turns."""

    clients: Clients
    turns: TurnStore
    session: Session
    python: Python
    conversation_id: str
    timeout_s: float
    follows: int | None = None
    """Turn of the conversation that the question follows; None for the newest."""

    name: ClassVar[str] = "reuse"
    # After the other calls of a round: the names of its tables follow theirs.
    reads: ClassVar[bool] = False
    description: ClassVar[str] = (
        "Loads a table or a figure of an earlier turn, by its name (sheet_4, fig_2) or a description (the table of"
        " monthly closes). A table becomes a sheet with its sources, to compute with and to cite."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["query"],
        query={"type": "string", "minLength": 1, "maxLength": 2000, "description": "Name or description."},
        turn={"type": "string", "description": "Value of `turn` in a result of search_turns; without it, any turn."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply | Reply:
        query = arguments["query"].strip()
        runs = await self._list_runs(query, arguments.get("turn", ""))
        found = [await self.turns.load(run) for run in runs]
        tables, figures = choose_findings(query, found)
        if not tables and not figures:
            known = [name for one in found for name in one.names]
            raise NotFound("table or figure of an earlier turn", query[:80], known[:20] or ["there is none"])
        copied = [NewMaterial(MaterialKind.CODE, await self.python.copy_figure(call_id, one)) for one in figures]

        def make_reply(first: int) -> Reply:
            reply = make_sheets_reply(self.session, [table.sheet for table in tables], (), first)
            shown = [
                {"figure": copy.item.figures[0].id, "title": copy.item.figures[0].title, "material": number}
                for number, copy in enumerate(copied, first + len(reply.material))
            ]
            head = {**reply.head, **({"figures": shown} if shown else {})}
            return Reply(ToolStatus.OK, head, reply.body, (*reply.material, *copied))

        return make_reply

    async def _list_runs(self, query: str, turn: str) -> list[str]:
        """Return the runs of the turn, or of those of this conversation and those that fit, the nearest first."""
        if turn:
            conversation, _, number = turn.rpartition(":")
            if not conversation or not number.isdecimal():
                raise InvalidField("reuse.turn", f"{turn[:80]!r} is no turn of search_turns")
            window = await self._read_window(conversation, int(number), 1)
            # The nearest turn before is another one.
            found = [one for one in window if one.number == int(number)]
            if not found:
                raise NotFound("turn", turn[:80])
            return list_run_ids(found)
        # The first question of a conversation may still be about another's table.
        has_turns = self.conversation_id and self.follows != 0
        newest = await self._read_window(self.conversation_id, self.follows or 0, LOOKED_THROUGH) if has_turns else []
        request = pb.SearchMemoryRequest(question=query, top_k=LOOKED_THROUGH)
        response = await self.clients.memory.search_memory(request, timeout_s=self.timeout_s)
        return list_run_ids([*reversed(newest), *(page.turn for page in response.pages)])

    async def _read_window(self, conversation: str, through: int, most: int) -> Sequence[pb.WindowTurn]:
        request = pb.GetWindowRequest(conversation_id=conversation, through=through, full_turns=1, max_turns=most)
        return list((await self.clients.memory.get_window(request, timeout_s=self.timeout_s)).turns)


def list_run_ids(turns: Sequence[Any]) -> list[str]:
    """Return the runs of turns without repetition, in their order."""
    return list(dict.fromkeys(turn.run_id for turn in turns if turn.run_id))


def choose_findings(
    query: str, found: Sequence[TurnFindings]
) -> tuple[tuple[EarlierTable, ...], tuple[EarlierFigure, ...]]:
    """Return the tables or figures of that name in the nearest turn, else those whose description fits best."""
    for one in found:
        tables = tuple(table for table in one.tables if table.name == query.lower())
        figures = tuple(figure for figure in one.figures if figure.figure.id == query.lower())
        if tables or figures:
            return tables, figures
    wanted = set(list_words(query))
    ranked: list[tuple[float, int, EarlierTable | EarlierFigure]] = []
    for age, one in enumerate(found):
        items: list[EarlierTable | EarlierFigure] = [*one.tables, *one.figures]
        for item in items:
            words = set(list_words(item.description))
            share = len(wanted & words) / len(wanted) if wanted else 0.0
            if share:
                ranked.append((share, -age, item))
    if not ranked:
        return (), ()
    best = max(ranked, key=lambda entry: entry[:2])[:2]
    chosen = [item for share, age, item in ranked if (share, age) == best][:MAX_LOADED]
    tables = tuple(item for item in chosen if isinstance(item, EarlierTable))
    return tables, tuple(item for item in chosen if isinstance(item, EarlierFigure))


def describe_turn(page: pb.MemoryPage, found: TurnFindings) -> dict[str, Any]:
    """Return where a turn is, when it was, and what can be loaded of it."""
    return {
        "turn": f"{page.conversation_id}:{page.turn.number}",
        "date": format_day(page.turn.end_time),
        "score": round(page.score, 2),
        "tables": [{"name": table.name, "title": table.sheet.title} for table in found.tables],
        "figures": [{"name": one.figure.id, "title": one.figure.title} for one in found.figures],
    }


def format_turn(page: pb.MemoryPage) -> str:
    """Return a turn as text: its question, the passage that fits, and the beginning of its answer."""
    turn = page.turn
    head = f"{page.conversation_id}:{turn.number} of {format_day(turn.end_time)}"
    return f"{head}\nasked: {turn.rewritten_question or turn.question}\nfits: {page.passage}\nanswered: " + shorten(
        turn.answer, ANSWER_CHARS
    )


def read_day(arguments: Mapping[str, Any], name: str) -> Timestamp | None:
    """Return midnight UTC of an ISO date, None without one; raise ``InvalidField`` naming this tool's argument."""
    try:
        return parse_day(arguments, name)
    except InvalidField as error:
        raise InvalidField(f"search_turns.{name}", error.message.removeprefix(f"{error.field}: ")) from error

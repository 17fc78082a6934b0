"""A gateway over doubles of its own boundary: small servicers that replay one realistic run, event by event.

They stand behind the real clients (``inproc://``), so typed errors, retries and streams are the real ones.
``ReplayPlanner.hold`` stops the replay before an event until ``release`` is called.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients import Clients, RetryPolicy
from fathom.core.call import Call
from fathom.core.errors import Conflict, DependencyFailed, FathomError, InvalidField, NotFound, Overloaded
from fathom.core.telemetry import Telemetry
from fathom.domain import frames
from fathom.hosting.deps import Deps
from fathom.hosting.host import HostedHttp, Runtime, hosting_http
from fathom.services.datafetch.catalog.frameworks import Frameworks, load_frameworks
from fathom.services.datafetch.catalog.frameworks.rpc import check_framework, get_framework_file, list_frameworks
from fathom.services.gateway.config import Config
from fathom.services.gateway.server import HttpService, build
from fathom.transport.bus import open_bus
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.refs import to_ref
from tests.e2e.files.reviews import RPCS, ReplayReviews
from tests.e2e.sandbox import ReplaySandbox
from tests.e2e.script import Script
from tests.e2e.settings.sources import ConnectorSources, CorpusSources, ToolSources

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass
class Replayed:
    """A run so far."""

    request: planner.RunRequest
    events: list[planner.RunEvent] = field(default_factory=list)
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    leg: int = 0
    todo: list[planner.TodoItem] = field(default_factory=list)
    unseen: planner.TodoChanged | None = None
    """A change of the plan that no event says yet."""

    @property
    def todo_version(self) -> str:
        return self.find_todo().change_id

    def find_todo(self) -> planner.TodoChanged:
        """Return the last change of the plan, one whose event is still on its way included."""
        changes = [event.todo_changed for event in self.events if event.HasField("todo_changed")]
        return self.unseen or (changes[-1] if changes else planner.TodoChanged())

    @property
    def is_finished(self) -> bool:
        return bool(self.events) and self.events[-1].HasField("finished")


class ReplayPlanner(ToolSources):
    """Replays ``script`` for every question; ``break_after`` cuts a stream once after that many events."""

    def __init__(self, script: Script) -> None:
        self.consents: dict[str, Any] = {}
        self.script = script
        self.runs: dict[str, Replayed] = {}
        self.asked: list[planner.RunRequest] = []
        self.watched: list[int] = []
        self.break_after = 0
        self.gone = ""
        self.full: Overloaded | None = None
        """Raised for each new run."""
        self.before = 0
        """Runs that each new run finds before it."""
        self.prompts: list[planner.PromptFile] = []
        self.failure: tuple[str, str] | None = None
        """Service and words of a failure that the list says of each run."""
        self._holding: int | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._playing: set[asyncio.Task[None]] = set()

    def hold(self, before: int) -> None:
        """Stops before event number ``before`` until ``release``."""
        self._holding = before
        self._free.clear()

    def release(self) -> None:
        self._holding = None
        self._free.set()

    async def close(self) -> None:
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)

    async def Run(self, request: planner.RunRequest, call: Call) -> AsyncIterator[planner.RunResponse]:
        self.asked.append(request)
        if self.full is not None:
            raise self.full
        if request.request_id not in self.runs:
            self.runs[request.request_id] = run = Replayed(request)
            task = asyncio.create_task(self._play(run))
            self._playing.add(task)
        # Known by now: the gateway leaves at the first event, and those who watch the run come after it.
        if self.before:
            waiting = planner.RunWaiting(before=self.before, expected_ms=9_000, conversation_id="conv_1")
            yield planner.RunResponse(event=planner.RunEvent(run_id=request.request_id, waiting=waiting))
        async for event in self._follow(request.request_id, 0):
            yield planner.RunResponse(event=event)

    async def _play(self, run: Replayed, skip: int = 0) -> None:
        for event in self.script.events(run.request):
            if event.sequence <= skip:
                continue
            if self._holding is not None and event.sequence >= self._holding:
                # A held run must still end when it is stopped.
                waits = {asyncio.create_task(self._free.wait()), asyncio.create_task(run.stopped.wait())}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
            if run.stopped.is_set():
                event = self.script.stop_run(run.request, event.sequence)
            async with run.grown:
                # Counted here and not in the script: a test may have told events of its own in between.
                event.sequence = len(run.events) + 1
                run.events.append(event)
                run.grown.notify_all()
            if event.HasField("finished"):
                return

    async def _follow(self, run_id: str, after: int) -> AsyncIterator[planner.RunEvent]:
        run, position = self._run(run_id), after
        while True:
            async with run.grown:
                while len(run.events) <= position:
                    if run.is_finished:  # nothing follows a place beyond its end
                        return
                    await run.grown.wait()
            event = run.events[position]
            position += 1
            if self.break_after and position > self.break_after:
                # Once: the client that takes the stream up again must find it whole.
                self.break_after = 0
                raise DependencyFailed("planner", "the connection broke")
            yield event
            if event.HasField("finished") and position == len(run.events):
                return

    def _run(self, run_id: str) -> Replayed:
        if self.gone:
            raise DependencyFailed("planner", self.gone)
        if run_id not in self.runs:
            raise NotFound("run", run_id)
        return self.runs[run_id]

    async def WatchRun(self, request: planner.WatchRunRequest, call: Call) -> AsyncIterator[planner.WatchRunResponse]:
        self.watched.append(request.after_sequence)
        if self.before:
            waiting = planner.RunWaiting(before=self.before, expected_ms=9_000)
            yield planner.WatchRunResponse(event=planner.RunEvent(run_id=request.run_id, waiting=waiting))
        async for event in self._follow(request.run_id, request.after_sequence):
            yield planner.WatchRunResponse(event=event)

    async def StopRun(self, request: planner.StopRunRequest, call: Call) -> planner.StopRunResponse:
        run = self._run(request.run_id)
        run.stopped.set()
        return planner.StopRunResponse(was_running=not run.is_finished)

    async def ResumeRun(
        self, request: planner.ResumeRunRequest, call: Call
    ) -> AsyncIterator[planner.ResumeRunResponse]:
        """Plays what the stop had cut off."""
        run = self._run(request.run_id)
        if not run.is_finished or run.events[-1].finished.HasField("answer"):
            raise Conflict("it is running, or it has its answer")
        run.leg, position = run.leg + 1, len(run.events)
        run.stopped.clear()
        resumed = planner.RunEvent(
            sequence=position + 1, run_id=request.run_id, resumed=planner.RunResumed(leg=run.leg)
        )
        resumed.time.GetCurrentTime()
        async with run.grown:
            run.events.append(resumed)
            run.grown.notify_all()
        task = asyncio.create_task(self._play(run, skip=position - 1))
        self._playing.add(task)
        async for event in self._follow(request.run_id, position):
            yield planner.ResumeRunResponse(event=event)

    async def UpdateTodo(self, request: planner.UpdateTodoRequest, call: Call) -> planner.UpdateTodoResponse:
        run = self._run(request.run_id)
        if run.is_finished:
            raise Conflict("the run has ended")
        current = run.todo_version
        if request.HasField("version") and request.version != current:
            raise Conflict("version: changed meanwhile", metadata={"field": "version", "version": current})
        run.todo, run.unseen = list(request.items), None
        change = planner.TodoChanged(items=request.items, by_user=True, change_id=request.request_id or "edit")
        await self.tell(request.run_id, todo_changed=change)
        return planner.UpdateTodoResponse(items=request.items, version=change.change_id)

    async def change_silently(self, run_id: str, change: planner.TodoChanged) -> None:
        """Change the plan as another reader does whose event is still on its way."""
        self._run(run_id).unseen = change

    async def SetConsent(self, request: planner.SetConsentRequest, call: Call) -> planner.SetConsentResponse:
        self.consents[request.run_id] = request.consent
        return planner.SetConsentResponse()

    async def GetConsent(self, request: planner.GetConsentRequest, call: Call) -> planner.GetConsentResponse:
        of_run = request.run_id in self.consents
        stated = self.consents.get(request.run_id, self.consents.get("", 0))
        return planner.GetConsentResponse(consent=stated, of_run=of_run and bool(request.run_id))

    async def ReplayRun(self, request: planner.ReplayRunRequest, call: Call) -> planner.ReplayRunResponse:
        self._run(request.run_id)
        return planner.ReplayRunResponse(same=True, recorded_hash="00", replayed_hash="00", steps=2)

    async def tell(self, run_id: str, **event: Any) -> None:
        """One further event of a run that is held."""
        run = self._run(run_id)
        async with run.grown:
            message = planner.RunEvent(sequence=len(run.events) + 1, run_id=run_id, **event)
            message.time.GetCurrentTime()
            run.events.append(message)
            run.grown.notify_all()

    async def GetRun(self, request: planner.GetRunRequest, call: Call) -> planner.GetRunResponse:
        run = self._run(request.run_id)
        record = self.script.trajectory(run.request, run.events)
        conversation = self.script.conversation(run.request)
        return planner.GetRunResponse(
            trajectory=record,
            running=not run.is_finished,
            conversation_id=conversation,
            todo=run.find_todo().items,
            todo_version=run.todo_version,
        )

    async def ListRuns(self, request: planner.ListRunsRequest, call: Call) -> planner.ListRunsResponse:
        return planner.ListRunsResponse(runs=reversed([self._summarize(*one) for one in self.runs.items()]))

    async def ListPrompts(self, request: planner.ListPromptsRequest, call: Call) -> planner.ListPromptsResponse:
        """List what ``prompts`` has."""
        return planner.ListPromptsResponse(prompts=self.prompts)

    def _summarize(self, run_id: str, run: Replayed) -> planner.RunSummary:
        summary = planner.RunSummary(run_id=run_id, question=run.request.question, model=run.request.model)
        if run.is_finished:
            first, last = run.events[0], run.events[-1]
            summary.stop_reason, summary.lane = last.finished.stop_reason, common.LANE_INTERACTIVE
            summary.start_time.CopyFrom(first.time)
            summary.end_time.CopyFrom(last.time)
            summary.usage.CopyFrom(last.finished.usage)
        if self.failure is not None:
            summary.stop_reason = trajectory.STOP_REASON_FAILED
            summary.culprit, summary.error = self.failure
        return summary


class ReplayDatafetch(ConnectorSources):
    """The script's sheet, in small chunks, and its exports."""

    def __init__(self, script: Script, store: MemoryStore) -> None:
        self._script, self._store = script, store
        self.lifetimes: list[int] = []
        self.meanings: list[data.TableMeaning] = []
        self.refusal: FathomError | None = None
        """Raised by an import and by an applied meaning."""
        self.library: Frameworks | None = None
        self.indicators: set[str] = set()
        self.import_ids: list[str] = []
        """Ids of the next imports' sheets, the first one first; the script's when there are none."""

    def _arrow(self, sheet_id: str) -> bytes:
        if sheet_id != self._script.sheet.id:
            raise NotFound("sheet", sheet_id)
        return self._script.arrow

    async def GetTable(self, request: data.GetTableRequest, call: Call) -> AsyncIterator[data.GetTableResponse]:
        arrow = self._arrow(request.sheet_id)
        # In several chunks, since a client that reads the first alone would pass with a small table.
        for start in range(0, len(arrow), 8192):
            yield data.GetTableResponse(chunk=arrow[start : start + 8192])

    async def ImportTable(self, request: data.ImportTableRequest, call: Call) -> data.ImportTableResponse:
        """Answer with the script's sheet under the file's name, and one row that could not be read."""
        self.lifetimes.append(request.lifetime_s)
        if self.refusal is not None:
            raise self.refusal
        sheet = data.Sheet()
        sheet.CopyFrom(self._script.sheet)
        sheet.title = request.title
        if self.import_ids:
            sheet.id = self.import_ids.pop(0)
        issue = data.ImportIssue(row=3, message="has 1 fields, not 3")
        return data.ImportTableResponse(sheet=sheet, issues=[issue])

    async def ProposeMeaning(self, request: data.ProposeMeaningRequest, call: Call) -> data.ProposeMeaningResponse:
        """Propose that the script's sheet has days and values."""
        columns = [
            data.ColumnMeaning(column="date", role=data.COLUMN_ROLE_DATE),
            data.ColumnMeaning(
                column="AAA.close_adj", role=data.COLUMN_ROLE_VALUE, names=["AAA"], aggregation=data.AGGREGATION_LAST
            ),
        ]
        return data.ProposeMeaningResponse(meaning=data.TableMeaning(columns=columns), adds=True)

    async def ApplyMeaning(self, request: data.ApplyMeaningRequest, call: Call) -> data.ApplyMeaningResponse:
        """Answer with the script's sheet; ``meanings`` has what was said."""
        if self.refusal is not None:
            raise self.refusal
        self.meanings.append(request.meaning)
        self.lifetimes.append(request.lifetime_s)
        return data.ApplyMeaningResponse(sheet=self._script.sheet)

    async def ResolveEntities(self, request: data.ResolveEntitiesRequest, call: Call) -> data.ResolveEntitiesResponse:
        """Complete the names of two companies; nothing else is known."""
        known = [
            data.Entity(id="AAA", name="Alpha <b>Industries</b>", name_zh="阿尔法", kind="stock"),
            data.Entity(id="AAPL", name="Apple Inc.", name_zh="苹果", kind="stock"),
        ]
        typed = request.mentions[0].lower()
        found = [
            one for one in known if any(name.lower().startswith(typed) for name in (one.id, one.name, one.name_zh))
        ]
        return data.ResolveEntitiesResponse(results=[data.EntityMatches(entities=found)])

    async def ListFrameworks(self, request: data.ListFrameworksRequest, call: Call) -> data.ListFrameworksResponse:
        """List two names alone, or what ``library`` has."""
        if self.library is not None:
            return list_frameworks(self.library, request)
        frameworks = [
            data.Framework(topic="esg", name="ESG", name_zh="环境、社会与治理"),
            data.Framework(topic="value", name="Valuation", name_zh="估值"),
        ]
        return data.ListFrameworksResponse(frameworks=frameworks)

    async def GetFrameworkFile(
        self, request: data.GetFrameworkFileRequest, call: Call
    ) -> data.GetFrameworkFileResponse:
        """Return a file of ``library``."""
        if self.library is None:
            raise NotFound("topic", request.topic)
        return get_framework_file(self.library, request)

    async def CheckFramework(self, request: data.CheckFrameworkRequest, call: Call) -> data.CheckFrameworkResponse:
        """Check as datafetch does, beside what ``library`` has and for tables with ``indicators``."""
        library = self.library or load_frameworks(EXAMPLES)
        return check_framework(library, self.indicators, request)

    async def ExportTable(self, request: data.ExportTableRequest, call: Call) -> data.ExportTableResponse:
        frame = frames.from_arrow(self._arrow(request.sheet_id))
        if request.format == data.EXPORT_FORMAT_XLSX:
            buffer = io.BytesIO()
            frame.to_excel(buffer, index=False)
            stored = await self._store.put(f"exports/{request.sheet_id}.xlsx", buffer.getvalue(), XLSX)
        else:
            content = frame.to_csv(index=False).encode("utf-8-sig")
            stored = await self._store.put(f"exports/{request.sheet_id}.csv", content, "text/csv; charset=utf-8")
        return data.ExportTableResponse(file=to_ref(stored))


class ReplayRetrieval(CorpusSources):
    """Documents that were brought, by corpus; the text of a bad one cannot be read."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.corpora: dict[str, list[str]] = {}

    async def ImportDocument(
        self, request: retrieval.ImportDocumentRequest, call: Call
    ) -> retrieval.ImportDocumentResponse:
        content = await self._store.get(request.data.key)
        if b"unreadable" in content:
            raise InvalidField("data", "holds no text that can be read")
        corpus = request.corpus or f"own_{len(self.corpora) + 1}"
        self.corpora.setdefault(corpus, []).append(request.source)
        return retrieval.ImportDocumentResponse(corpus=corpus, added=len(content.split(b"\f")))


class ReplayMemory:
    """Conversations made of the finished runs."""

    def __init__(self, runs: ReplayPlanner) -> None:
        self._planner = runs
        self.feedback: list[memory.RecordFeedbackRequest] = []
        self.listed_feedback: list[memory.ListFeedbackRequest] = []
        self.facts: dict[str, memory.Fact] = {}
        self.deleted: set[str] = set()
        self.refusal: FathomError | None = None
        """Raised by deletions."""
        self.edits: dict[str, memory.UpdateConversationRequest] = {}
        self.sheets: dict[str, dict[str, memory.SheetView]] = {}
        """Views that conversations have of their tables, by the tables' ids."""
        self.page_size = 0
        """Conversations on a page; 0 leaves it to the request."""
        self.reviews = ReplayReviews()
        for name in RPCS:
            setattr(self, name, partial(self._review, name))

    async def _review(self, name: str, request: Message, call: Call) -> Message:
        answer: Message = await getattr(await self.reviews.open(), name)(request, call)
        return answer

    def _turns(self, conversation_id: str) -> list[memory.Turn]:
        turns: list[memory.Turn] = []
        for run_id, run in self._planner.runs.items():
            if self._planner.script.conversation(run.request) == conversation_id and run.is_finished:
                answer = run.events[-1].finished.answer.markdown
                turn = memory.Turn(number=len(turns) + 1, question=run.request.question, answer=answer, run_id=run_id)
                turn.parent = run.request.parent_turn if run.request.HasField("parent_turn") else len(turns)
                turns.append(turn)
        return turns

    async def ListTurns(self, request: memory.ListTurnsRequest, call: Call) -> memory.ListTurnsResponse:
        turns = self._turns(request.conversation_id)
        if not turns or request.conversation_id in self.deleted:
            raise NotFound("conversation", request.conversation_id)
        sheets = self.sheets.get(request.conversation_id, {}).values()
        return memory.ListTurnsResponse(turns=reversed(turns) if request.newest_first else turns, sheets=sheets)

    async def ListConversations(
        self, request: memory.ListConversationsRequest, call: Call
    ) -> memory.ListConversationsResponse:
        response = memory.ListConversationsResponse()
        for ident in dict.fromkeys(self._planner.script.conversation(r.request) for r in self._planner.runs.values()):
            turns = self._turns(ident)
            if turns and ident not in self.deleted:
                response.conversations.append(self._describe(ident))
        words = request.query.casefold().split()
        found = [item for item in response.conversations if self._find(item, words)]
        found.sort(key=lambda item: not item.pinned)
        start, size = int(request.page_token or 0), self.page_size or request.page_size or 100
        more = str(start + size) if len(found) > start + size else ""
        return memory.ListConversationsResponse(conversations=found[start : start + size], next_page_token=more)

    def _find(self, item: memory.Conversation, words: list[str]) -> bool:
        """Return whether a conversation has all words, and note the first of its turns that has one."""
        turns = [f"{turn.answer} {turn.question}" for turn in self._turns(item.id)]
        texts = [item.title, *turns]
        if words:
            item.passage = next((text for text in turns if any(word in text.casefold() for word in words)), "")[:160]
        return all(any(word in text.casefold() for text in texts) for word in words)

    def _describe(self, ident: str) -> memory.Conversation:
        turns, edit = self._turns(ident), self.edits.get(ident, memory.UpdateConversationRequest())
        title = edit.title or turns[0].question
        item = memory.Conversation(id=ident, title=title, turns=len(turns), pinned=edit.pinned, version=1)
        item.update_time.GetCurrentTime()
        return item

    async def UpdateConversation(
        self, request: memory.UpdateConversationRequest, call: Call
    ) -> memory.UpdateConversationResponse:
        if not self._turns(request.conversation_id):
            raise NotFound("conversation", request.conversation_id)
        kept = self.edits.setdefault(request.conversation_id, memory.UpdateConversationRequest())
        kept.MergeFrom(request)
        if request.HasField("sheet"):
            self.sheets.setdefault(request.conversation_id, {})[request.sheet.sheet_id] = request.sheet
        return memory.UpdateConversationResponse(conversation=self._describe(request.conversation_id))

    async def DeleteConversation(
        self, request: memory.DeleteConversationRequest, call: Call
    ) -> memory.DeleteConversationResponse:
        if self.refusal is not None:
            raise self.refusal
        self.deleted.add(request.conversation_id)
        return memory.DeleteConversationResponse(turns=len(self._turns(request.conversation_id)))

    async def RecordFeedback(self, request: memory.RecordFeedbackRequest, call: Call) -> memory.RecordFeedbackResponse:
        self.feedback.append(request)
        return memory.RecordFeedbackResponse()

    async def ListFeedback(self, request: memory.ListFeedbackRequest, call: Call) -> memory.ListFeedbackResponse:
        """List judgements of a run or a conversation, as the gateway asks for them: the newest first."""
        self.listed_feedback.append(request)
        runs = {turn.run_id for turn in self._turns(request.conversation_id)} | {request.run_id}
        found = [said for said in reversed(self.feedback) if said.run_id in runs]
        listed = [
            memory.Feedback(run_id=one.run_id, helpful=one.helpful, tags=one.tags, comment=one.comment)
            for one in found[: request.page_size]
        ]
        return memory.ListFeedbackResponse(feedback=listed)

    async def ListFacts(self, request: memory.ListFactsRequest, call: Call) -> memory.ListFactsResponse:
        return memory.ListFactsResponse(facts=self.facts.values())

    async def PutFact(self, request: memory.PutFactRequest, call: Call) -> memory.PutFactResponse:
        fact = request.fact
        known = self.facts.get(fact.id)
        if fact.id and known is None:
            raise NotFound("fact", fact.id)
        if known is not None and fact.version not in (0, known.version):
            raise Conflict("fact.version: edited meanwhile", metadata={"field": "fact.version"})
        fact.id = fact.id or f"fact_{len(self.facts) + 1}"
        fact.version = known.version + 1 if known else 1
        self.facts[fact.id] = fact
        return memory.PutFactResponse(fact=fact)

    async def DeleteFact(self, request: memory.DeleteFactRequest, call: Call) -> memory.DeleteFactResponse:
        if self.refusal is not None:
            raise self.refusal
        if self.facts.pop(request.fact_id, None) is None:
            raise NotFound("fact", request.fact_id)
        return memory.DeleteFactResponse()


class ReplayPolicy:
    """Two models, the second of them warming; the first plays every role."""

    async def GetModel(self, request: policy.GetModelRequest, call: Call) -> policy.GetModelResponse:
        return policy.GetModelResponse(model=policy.Model(name="rules", engine="rules", state=policy.MODEL_STATE_READY))

    async def ListModels(self, request: policy.ListModelsRequest, call: Call) -> policy.ListModelsResponse:
        rules = policy.Model(name="rules", engine="rules", state=policy.MODEL_STATE_READY)
        small = policy.Model(name="smollm2-135m", engine="transformers", state=policy.MODEL_STATE_WARMING, exact=True)
        return policy.ListModelsResponse(models=[rules, small])


@dataclass(frozen=True)
class ReplayHouse:
    """Everything behind and including a gateway; ``url`` is empty unless it is served."""

    planner: ReplayPlanner
    memory: ReplayMemory
    datafetch: ReplayDatafetch
    retrieval: ReplayRetrieval
    store: MemoryStore
    service: HttpService
    dispatchers: Mapping[str, Dispatcher]
    log: io.StringIO
    url: str = ""


@asynccontextmanager
async def replay_house(
    script: Script, sandbox: ReplaySandbox | None = None, **settings: Any
) -> AsyncIterator[tuple[ReplayHouse, Deps]]:
    """A gateway with its doubles in this process; without a ``sandbox`` there is none."""
    store, log = MemoryStore(), io.StringIO()
    telemetry = Telemetry("replay", stream=log)
    bus = await open_bus("memory://", store)
    run_planner = ReplayPlanner(script)
    remembered = ReplayMemory(run_planner)
    fetched, documents = ReplayDatafetch(script, store), ReplayRetrieval(store)
    servicers: dict[str, Any] = {
        **({"sandbox": sandbox} if sandbox is not None else {}),
        "planner": run_planner,
        "datafetch": fetched,
        "memory": remembered,
        "retrieval": documents,
        "policy": ReplayPolicy(),
    }
    dispatchers = {name: Dispatcher(Service(name, servicer), telemetry) for name, servicer in servicers.items()}
    for dispatcher in dispatchers.values():
        dispatcher.ready = True
    endpoints = {name: f"inproc://{name}" for name in servicers}
    clients = Clients(endpoints, telemetry, dispatchers=dispatchers, policy=RetryPolicy(attempts=1))
    deps = Deps(clients, store, bus, telemetry)
    for number, figure in enumerate(script.figures, 1):
        stored = await store.put(f"figures/replayed/fig_{number}.json", json.dumps(figure).encode(), "application/json")
        script.figure_refs.append(to_ref(stored))
    service = build(Config(**settings), deps)
    try:
        yield ReplayHouse(run_planner, remembered, fetched, documents, store, service, dispatchers, log), deps
    finally:
        await service.close()
        await remembered.reviews.close()
        await run_planner.close()
        await clients.close()
        await bus.close()


@asynccontextmanager
async def serve_script(
    script: Script, sandbox: ReplaySandbox | None = None, **settings: Any
) -> AsyncIterator[ReplayHouse]:
    """Serve the same behind a real HTTP server on a free port."""
    async with replay_house(script, sandbox, **settings) as (house, deps):
        hosted: HostedHttp
        async with hosting_http(house.service, deps, Runtime(grace_s=1.0)) as hosted:
            yield replace(house, url=hosted.url)

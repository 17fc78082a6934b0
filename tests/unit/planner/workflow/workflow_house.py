"""Planner that plays workflows without services: policy scripted by stage, counting tools and library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.core.errors import DependencyFailed
from fathom.domain.chat.messages import Message
from fathom.domain.chat.pipeline import Asked, read_ask
from fathom.services.planner.answering.rendering.finish import CitedEnding, Ending
from fathom.services.planner.engine import AnyProtocol
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import MaterialKind, Step, Task, ToolStatus
from fathom.services.planner.model.stages import LibraryLookup, Widening
from fathom.services.planner.model.view import FullWindow
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema
from fathom.services.planner.workflow.enrichment import QuestionContext
from fathom.services.planner.workflow.protocol import Workflow
from tests.support.policy import FakePolicy, PolicyRequest
from tests.unit.planner.house import House

PLAN = '[{"tool": "data", "subquery": "Apple price 2020"}, {"tool": "search", "subquery": "Apple news"}]'
ENOUGH, ANSWER = "{}", "It rose [1], and the papers said why [2]."
WHOLE: Mapping[str, Sequence[str]] = {"plan": [PLAN], "reflect": [ENOUGH], "compose": [ANSWER]}


@dataclass
class Speaker(FakePolicy):
    """Policy that returns the n-th text of a stage, for any worker; it records the messages."""

    texts: Mapping[str, Sequence[str]]
    sampled: list[str] = field(default_factory=list)
    shown: list[tuple[str, tuple[Message, ...]]] = field(default_factory=list)

    async def write(self, request: PolicyRequest) -> str:
        assert request.tools == (), "a stage has no tools"
        asked = asked_in(request.view.messages)
        # Counted from what is shown and not in here, so that any worker that goes on gets the same text.
        before = sum(message.role == "assistant" for message in request.view.messages)
        self.sampled.append(f"{asked.stage}-{before}")
        self.shown.append((asked.stage, request.view.messages))
        text = self.texts[asked.stage][before]
        if request.hear is not None:
            request.hear(text)
        return text

    def prompt(self, stage: str) -> Asked:
        """Return the first request of a stage."""
        return next(asked_in(messages) for name, messages in self.shown if name == stage)


def asked_in(messages: Sequence[Message]) -> Asked:
    return next(asked for message in messages if (asked := read_ask(message.content)) is not None)


@dataclass
class Source:
    """``data`` or ``search`` or ``fetch``: finds a document, nothing for words with "nothing", and fails for "broken"."""

    name: str
    argument: str
    called: list[str]
    reads = True
    description = "Finds it."

    @property
    def parameters(self) -> Mapping[str, Any]:
        return make_schema([self.argument], **{self.argument: {"type": "string"}})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        text = arguments[self.argument]
        self.called.append(f"{self.name}: {text}")
        if "broken" in text:
            raise DependencyFailed(self.name, "is gone")
        if "nothing" in text:
            lacking = NewMaterial(MaterialKind.MISSING, {"subject": text, "reason": "NO_MATCH"})
            return lambda first: Reply(ToolStatus.EMPTY, {"hits": [], "missing": [{"subject": text}]}, "", (lacking,))
        if self.name == "search":
            hits = [{"id": f"doc of {text}", "title": f"About {text}", "summary": "s", "time": ""}]
            return lambda first: Reply(ToolStatus.OK, {"hits": hits})
        found = NewMaterial(MaterialKind.PASSAGE, Document(id=text, title=f"On {text}", text=f"What {text} says."))
        return lambda first: Reply(ToolStatus.OK, {"material": first, "title": f"On {text}"}, f"{text} rose.", (found,))


@dataclass
class Library:
    """A enricher with a framework of two leaves; "flux" is no indicator."""

    asked: list[str] = field(default_factory=list)

    async def find_context(self, question: str, chinese: bool) -> QuestionContext:
        self.asked.append(question)
        tree = "# company: Company\n- Profitability\n  - Margins\n    - gross margin [data]"
        return QuestionContext(tree, ("gross margin",), (Widening("frameworks", ("company",)),))

    async def look_up(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> LibraryLookup:
        known = {name: "" if "flux" in name else "gross_margin" for name in names}
        inside = {text: ("gross margin",) if "gross margin" in text else () for text in texts}
        return LibraryLookup(known, {name: name for name, ident in known.items() if ident}, inside)


class WorkflowHouse(House):
    """Plays every run as a workflow; ``turns`` is what memory knows of the conversation."""

    def __init__(
        self, texts: Mapping[str, Sequence[str]] = WHOLE, turns: Sequence[memory.WindowTurn] = (), **settings: Any
    ) -> None:
        self.room = 0
        self.library, self.ending = Library(), cast(Ending, CitedEnding())
        super().__init__(**settings)
        self.policy: Any = Speaker(texts)
        self.turns, self.remembered = list(turns), list[memory.Turn]()
        self.clients.__dict__["memory"] = SimpleNamespace(get_window=self.window, append_turn=self.append)

    async def window(self, request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        return memory.GetWindowResponse(turns=self.turns)

    async def append(self, request: memory.AppendTurnRequest) -> memory.AppendTurnResponse:
        self.remembered.append(request.turn)
        return memory.AppendTurnResponse(turn=request.turn)

    def protocols(self) -> dict[int, AnyProtocol]:
        prompts = Prompts.of(load_catalogue(), self.config)
        workflow = Workflow(prompts, self.library, 2_000, self.config.workflow_reflects)
        return {**super().protocols(), trajectory.PROTOCOL_WORKFLOW: workflow}

    def stage(self, task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        known = [*steps, *([cut_short] if cut_short else [])]
        material = sum(len(result.material) for step in known for result in step.results)
        tools = [
            Source(name, argument, self.called)
            for name, argument in (("data", "question"), ("search", "query"), ("fetch", "id"))
        ]
        return EpisodeResources(
            Registry(tools, material, known=cut_short.results if cut_short else ()), FullWindow(self.room), self.ending
        )

    async def ask(self, run_id: str = "run_1", **fields: Any) -> None:
        await super().ask(run_id, **{"protocol": trajectory.PROTOCOL_WORKFLOW, "conversation_id": "conv_1", **fields})

    async def play(self, run_id: str = "run_1", **fields: Any) -> list[pb.RunEvent]:
        """Play a whole run and return its events."""
        await self.ask(run_id, **fields)
        async with self.working():
            return await self.events(run_id)


def stages(events: Sequence[pb.RunEvent]) -> list[str]:
    """Return the stages of a run in order."""
    return [event.staged.stage.name for event in events if event.HasField("staged")]

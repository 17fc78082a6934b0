"""The path of a question in one process: fake endpoint over HTTP, policy service, planner's worker, run log.

Only the sources are made up: `look` finds a document that says what it was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.clients import Clients
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.llm import PolicyService
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import MaterialKind, Step, Task, ToolStatus
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, make_schema
from fathom.services.planner.tools.tool import Reply as ToolReply
from fathom.services.policy.config import Config as PolicyConfig
from fathom.services.policy.server import build
from fathom.transport.rpc.dispatch import Dispatcher
from tests.support.endpoint import Call, FakeEndpoint, Family, Reply, fake_endpoint
from tests.unit.planner.house import House


def look(text: str) -> Call:
    return Call("look", {"intent": "to see", "text": text})


def finish(answer: str) -> Reply:
    return Reply(calls=(Call("finish", {"intent": "to end", "answer": answer}),))


class Look:
    """Tool that finds a document with the text that it was asked for."""

    name, description, reads = "look", "Looks something up.", True
    parameters: Mapping[str, Any] = make_schema(["text"], text={"type": "string"})

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> ToolReply | NumberedReply:
        text = arguments["text"]
        found = NewMaterial(MaterialKind.PASSAGE, Document(id=call_id, title=text, text=text))
        return lambda first: ToolReply(ToolStatus.OK, {"material": first, "hits": [text]}, text, (found,))


@dataclass
class Played:
    """A run that has ended, with the requests that its model got."""

    finished: pb.RunFinished
    events: Sequence[pb.RunEvent]
    far: FakeEndpoint

    @property
    def stop(self) -> str:
        return trajectory.StopReason.Name(self.finished.stop_reason).removeprefix("STOP_REASON_").lower()

    @property
    def text(self) -> str:
        return self.finished.answer.markdown

    @property
    def rounds(self) -> int:
        return len(self.far.requests)

    def read_prompt(self, request: int) -> str:
        """Return all that the model was shown with a request, tools left out."""
        return "\n".join(str(message.get("content")) for message in self.far.requests[request].body["messages"])

    def list_tools(self, request: int) -> list[str]:
        return [tool["function"]["name"] for tool in self.far.requests[request].body.get("tools", ())]


@asynccontextmanager
async def open_policy(far: FakeEndpoint, house: House, **model: Any) -> AsyncIterator[Clients]:
    """Serve the endpoint's model as the policy service, in this process."""
    telemetry = Telemetry("test", log_level="critical")
    config = PolicyConfig(models={"far": far.settings(**model)}, default_model="far")  # type: ignore[dict-item]
    service = build(config, Deps(Clients({}, telemetry), house.store, house.bus, telemetry))
    await service.warm_up()
    dispatcher = Dispatcher(service, telemetry)
    dispatcher.ready = True
    # Two attempts: a fault that is played once is overcome, one that is played twice shows.
    clients = Clients(
        {"policy": "inproc://policy"}, telemetry, dispatchers={"policy": dispatcher}, policy=RetryPolicy(attempts=2)
    )
    try:
        yield clients
    finally:
        await clients.close()
        await service.close()


async def play(
    family: str | Family,
    script: Iterable[Any],
    question: str = "why?",
    *,
    model: Mapping[str, Any] | None = None,
    ask: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Played:
    """Ask a question of a model behind a fake endpoint; return when the run has ended.

    ``model`` are settings of policy's model, ``ask`` fields of the request, ``settings`` the planner's.
    """
    # An endpoint that is out of order ends the run at once: here nobody waits for it to come back.
    house = House(**{"outage_s": 0, **settings})

    def stage(task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        known = [*steps, *([cut_short] if cut_short else [])]
        material = sum(len(result.material) for step in known for result in step.results)
        thoughts = [] if task.is_thinking else [Think()]
        registry = Registry([Look(), *thoughts, Finish()], material, known=cut_short.results if cut_short else ())
        prices = house.config.prices(task.model)
        return EpisodeResources(
            registry, ending=CheckedEnding(Evidence(house.store)), todo=Todo.from_steps(known), prices=prices
        )

    async with fake_endpoint(family, script) as far, open_policy(far, house, **(model or {})) as clients:
        house.runs.clients = house.clients = clients
        worker = house.worker(lambda: Engine(lambda protocol: PolicyService(clients, tags=protocol.tags), stage))
        await house.ask(**{"question": question, "model": "far", **(ask or {})})
        async with house.working(worker):
            events = await house.events()
        return Played(events[-1].finished, events, far)

"""A user's run and a trainer's rollout with the same input ask the model for the same, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.call import Call, Lane
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Completion, Message, Sampling, ToolSpec
from fathom.domain.chat.pipeline import read_ask
from fathom.domain.chat.proto import message_to_proto, sampling_to_proto, tool_spec_to_proto
from fathom.services.planner.engine import AnyProtocol, Engine
from fathom.services.planner.episode.dialogue import SearchR1
from fathom.services.planner.model.episode import Task
from fathom.services.planner.model.view import View
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.rollouts.service import Rollouts
from fathom.services.planner.workflow.protocol import Workflow
from fathom.services.planner.workflow.rewriting import Reading
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary
from tests.support.policy import FakePolicy, PolicyRequest
from tests.unit.planner.house import House, choose_form, choose_route, echo, finish
from tests.unit.planner.workflow.workflow_house import WHOLE, Library

TOKENIZER = RulesTokenizer(load_vocabulary())
RESEARCH, WORKFLOW, AUTO = trajectory.PROTOCOL_RESEARCH, trajectory.PROTOCOL_WORKFLOW, trajectory.PROTOCOL_AUTO
HISTORY = [
    policy.Message(role=policy.ROLE_USER, content="How profitable is Apple?"),
    policy.Message(role=policy.ROLE_ASSISTANT, content="Its margin is 25 %."),
]
TEXTS = {**WHOLE, "rewrite": ["How profitable is Microsoft?"]}
LINES = (echo("a"), echo("b", "c"), finish("It is so."))


@dataclass
class Recorder(FakePolicy):
    """Policy that keeps what each request asks of the model: prompt, tools, sampling, limits."""

    requests: list[tuple[Any, ...]]
    seeds: list[int] = field(default_factory=list)

    async def write(self, request: PolicyRequest) -> str:
        asks = [asked for message in request.view.messages if (asked := read_ask(message.content)) is not None]
        if asks:
            said = sum(message.role == "assistant" for message in request.view.messages)
            return TEXTS[asks[0].stage][said]
        return LINES[request.index]

    async def generate(
        self,
        request_id: str,
        task: Task,
        view: View,
        tools: Sequence[ToolSpec],
        sampling: Sampling,
        hear: Any = None,
    ) -> Completion:
        sent = policy.GenerateRequest(
            model=task.model,
            messages=[message_to_proto(message) for message in view.messages],
            tools=[tool_spec_to_proto(tool) for tool in tools],
            # Each episode of a group has a seed of its own.
            sampling=sampling_to_proto(replace(sampling, seed=0)),
        )
        self.seeds.append(sampling.seed)
        limits = replace(task.limits, deadline=0.0)
        prompt = TOKENIZER.render(view.messages, tools, True).encode()
        assert hear is None or not task.is_rollout, "drafts are for a run's readers"
        self.requests.append((prompt, sent.SerializeToString(deterministic=True), limits, task.as_of, task.window))
        return await super().generate(request_id, task, view, tools, sampling, hear)


class Follow:
    """Makes the question of a follow-up whole."""

    async def rewrite(self, question: str, history: Sequence[Message], *_: Any, **__: Any) -> Reading:
        return Reading(f"How profitable is Microsoft? ({question})", "slots")


class Summary:
    async def describe(self, as_of: Any) -> str:
        return f"- prices until {'today' if as_of is None else as_of.ToJsonString()}"

    load = describe


class Both(House):
    """One planner that plays runs and rollouts; ``requests`` are those of the one played last."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.library = Library()
        super().__init__(model_profiles={"s": {"efforts": {"deep": {"completion_tokens": 999}}}})
        self.policy: Any = Recorder(self.requests)
        model = policy.Model(name="s", engine="openai", window_tokens=64_000)

        async def get_model(_: Any, timeout_s: float = 1.0) -> policy.GetModelResponse:
            return policy.GetModelResponse(model=model)

        self.clients.__dict__["policy"] = SimpleNamespace(get_model=get_model)
        preparer = self.runs.worker.preparer
        preparer.rewriter, preparer.summary = Follow(), Summary()  # type: ignore[assignment]
        preparer.router = replace(preparer.router, rewriter=Follow())  # type: ignore[arg-type]
        engine = Engine(lambda protocol: self.policy, self.stage)
        clients: Clients = self.clients
        self.rollouts = Rollouts(
            self.config, engine, self.protocols(), self.record, clients, self.telemetry.log,
            Summary(), Follow(), choose_route, choose_form,  # type: ignore[arg-type]
        )  # fmt: skip

    def protocols(self) -> dict[int, AnyProtocol]:
        prompts = Prompts.of(load_catalogue(), self.config)
        searching = SearchR1(prompts.catalogue.find("search_r1", "en").body)
        workflow = Workflow(prompts, self.library, 2_000, self.config.workflow_reflects)
        return {**super().protocols(), WORKFLOW: workflow, trajectory.PROTOCOL_SEARCH_R1: searching}

    async def run(self, **asked: Any) -> tuple[list[tuple[Any, ...]], trajectory.Trajectory]:
        self.requests.clear()
        async with self.working():
            await self.ask(**{"run_id": "run_1", **asked})
            await self.events()
        ended = await self.record.get_trajectory("run_1")
        assert ended is not None
        return list(self.requests), ended

    async def roll(self, task: dict[str, Any], **asked: Any) -> tuple[list[tuple[Any, ...]], trajectory.Trajectory]:
        self.requests.clear()
        tasks = [pb.RolloutTask(id="t", **{"question": "why?", **task})]
        request = pb.RolloutRequest(tasks=tasks, group_size=1, **{"model": "s", **asked})
        [found] = [item.trajectory async for item in self.rollouts.run(request, Call.new(lane=Lane.TRAINING))]
        return list(self.requests), found


INSTANT = Timestamp(seconds=1_396_224_000)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "as of a day": ({}, {"as_of": INSTANT}),
    "after earlier turns": ({}, {"history": HISTORY}),
    "after earlier turns as of a day": ({}, {"history": HISTORY, "as_of": INSTANT}),
    "a report": ({}, {"question": "Write a report on Apple."}),
    "quick": ({"effort": pb.EFFORT_QUICK}, {}),
    "standard": ({"effort": pb.EFFORT_STANDARD}, {}),
    "deep, with a budget": ({"effort": pb.EFFORT_DEEP, "budget": pb.Budget(max_rounds=50)}, {}),
    "prompts and window": (
        {"prompts": {"answer": "evidence"}, "window": trajectory.Window(tokens=20_000)}, {"question": "What of gold?"}
    ),
    "workflow": ({"protocol": WORKFLOW}, {"question": "How profitable is Apple?"}),
    "workflow after earlier turns": ({"protocol": WORKFLOW}, {"history": HISTORY}),
    "routed to a plan": ({"protocol": AUTO}, {"question": "How profitable is Apple?", "as_of": INSTANT}),
    "routed to the agent": ({"protocol": AUTO}, {"question": "why?"}),
    # A follow-up is routed by the whole question that it stands for.
    "routed after earlier turns": ({"protocol": AUTO}, {"question": "and Microsoft?", "history": HISTORY}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_run_and_rollout_ask_the_model_for_the_same(name: str) -> None:
    asked, task = CASES[name]
    ours = Both()
    run, production = await ours.run(**asked, **task)
    rollout, training = await ours.roll(task, **asked)
    assert len(run) >= 2
    assert rollout == run
    assert training.protocol == production.protocol or {training.protocol, production.protocol} == {0, RESEARCH}
    assert training.prompts == production.prompts
    assert [step.new_messages for step in training.steps] == [step.new_messages for step in production.steps]


@pytest.mark.parametrize("protocol", [RESEARCH, WORKFLOW])
async def test_each_round_of_an_episode_draws_numbers_of_its_own(protocol: Any) -> None:
    """A request begins with the first numbers of its seed: one for all rounds would tie what is drawn in them."""

    async def list_seeds(seed: int) -> list[int]:
        ours = Both()
        await ours.roll({}, protocol=protocol, sampling=policy.Sampling(seed=seed))
        return list(ours.policy.seeds)

    seeds, others = await list_seeds(7), await list_seeds(8)
    assert len(seeds) > 1
    assert seeds[0] == 7
    assert len({*seeds, *others}) == 2 * len(seeds)
    assert await list_seeds(7) == seeds, "an episode that is played again draws the same"
    # Without a seed policy makes one of each request.
    assert set(await list_seeds(0)) == {0}


async def test_each_question_has_its_own_instant() -> None:
    """Questions of different days in one request: each is asked on its day, and the data are those of that day."""
    ours = Both()
    later = Timestamp(seconds=1_700_000_000)
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="a", question="why?", as_of=INSTANT), pb.RolloutTask(id="b", question="why?")],
        group_size=1, model="s", as_of=later,
    )  # fmt: skip
    async for _ in ours.rollouts.run(request, Call.new(lane=Lane.TRAINING)):
        pass
    seen = {as_of.ToJsonString(): prompt.decode() for prompt, _, _, as_of, _ in ours.requests}
    assert set(seen) == {INSTANT.ToJsonString(), later.ToJsonString()}
    for instant, prompt in seen.items():
        assert f"prices until {instant}" in prompt
        assert instant[:10] in prompt
    assert INSTANT.ToJsonString()[:10] not in seen[later.ToJsonString()]


@pytest.mark.parametrize(
    ("fields", "task", "field"),
    [
        ({"protocol": trajectory.PROTOCOL_SEARCH_R1}, {"history": HISTORY}, "tasks[0].history"),
        ({}, {"history": [policy.Message(role=policy.ROLE_TOOL, content="x")]}, "tasks[0].history[0]"),
        ({"protocol": trajectory.PROTOCOL_SEARCH_R1, "instruction": "Answer."}, {}, "instruction"),
        ({"invalid_action": "Again."}, {}, "invalid_action"),
        ({"effort": 9}, {}, "effort"),
        ({"budget": pb.Budget(max_rounds=-1)}, {}, "budget.max_rounds"),
    ],
)
async def test_what_no_episode_can_have_is_refused(fields: dict[str, Any], task: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        await Both().roll(task, **fields)
    assert caught.value.field == field

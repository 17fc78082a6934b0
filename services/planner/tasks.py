"""Tasks of episodes, made alike for users' runs and for trainers' rollouts: what a model is shown depends on these."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.api.planner.v1 import trajectory_pb2
from fathom.api.policy.v1.policy_pb2 import GetModelRequest, Model
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.messages import Message, Sampling
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol
from fathom.services.planner.episode.dialogue import Research
from fathom.services.planner.episode.limits import cap_sampling, resolve_today
from fathom.services.planner.model.effort import EffortProfile, ModelProfile
from fathom.services.planner.model.episode import Limits, Material, Task
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.model.slots import ReadText
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.prompts.selection import SHORT_TOOLS, is_small_window
from fathom.services.planner.proto.window import settings_from_proto
from fathom.services.planner.questions.model_routing import find_language_model
from fathom.services.planner.questions.routing import Form
from fathom.services.planner.tools.data.query import Data
from fathom.services.planner.workflow.protocol import Workflow
from fathom.services.planner.workflow.rewriting import STAGE, Reading, Rewriter

ENDPOINT = "openai"
"""Engine of models behind an endpoint, as policy names it."""


@dataclass(frozen=True)
class Wanted:
    """Request of somebody for an answer, and what is known of it before the first sampling.

    ``reading`` is the question as it is understood after ``history``; ``form`` that of the answer, "" when not decided.
    """

    run_id: str
    question: str
    reading: Reading
    model: str
    protocol: AnyProtocol
    sampling: Sampling
    limits: Limits
    profile: EffortProfile
    window: trajectory_pb2.Window
    prompts: Mapping[str, str] = field(default_factory=dict)
    form: str = ""
    history: tuple[Message, ...] = ()
    given: tuple[Material, ...] = ()
    as_of: Any = None
    start_time: float = 0.0
    tools: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)


@dataclass
class TaskMaker:
    """Makes tasks by the settings of a planner and the properties of the model."""

    config: Config
    clients: Clients
    summary: DataSummary | None = None
    """Summary of the data for the system prompt; None leaves it out."""
    is_strict: bool = False
    """True where services that are away make no shorter prompt but an error: for a trainer's episodes."""

    async def make(self, wanted: Wanted, known: Model | None = None) -> Task:
        """Return the task of an episode; raise ``InvalidField`` for unknown prompts or a wrong window.

        ``known`` is the model, when it was found before. A strict maker raises ``FathomError`` while the summary of the
        data cannot be had: siblings and repetitions of an episode must be asked the same.
        """
        config, protocol = self.config, wanted.protocol
        model = known or await self.find_model(wanted.model)
        # A workflow's stages see one whole question and no conversation.
        whole = wanted.reading.method != STAGE and isinstance(protocol, Workflow)
        window = settings_from_proto(wanted.window, config.make_window(wanted.profile.window_tokens))
        tokens = min(window.tokens, model.window_tokens or window.tokens)
        is_small = isinstance(protocol, Research) and is_small_window(tokens)
        task = Task(
            wanted.run_id,
            wanted.reading.question,
            wanted.model,
            self._make_sampling(model, wanted.sampling, wanted.profile),
            wanted.limits,
            history=() if whole else wanted.history,
            asked="" if whole or wanted.question == wanted.reading.question else wanted.question,
            guess="" if wanted.reading.asks_back else wanted.reading.reference,
            program_texts=wanted.reading.program_texts,
            given=() if whole else wanted.given,
            as_of=wanted.as_of,
            prompts=protocol.prompts(wanted.question, choose_prompts(wanted, tokens), tokens),
            date=resolve_today(wanted.as_of, wanted.start_time),
            window=window,
            model_window=model.window_tokens,
            tools=wanted.tools or (SHORT_TOOLS if is_small else ()),
            read=wanted.reading.read,
            memory=wanted.memory,
            is_thinking=config.model_profiles.get(wanted.model, ModelProfile()).is_thinking,
        )
        if self.summary is None or not isinstance(protocol, Research) or (wanted.tools and not allows_data(task)):
            return task
        describe = self.summary.load if self.is_strict else self.summary.describe
        return replace(task, data_summary=await describe(wanted.as_of))

    def _make_sampling(self, model: Model, asked: Sampling, profile: EffortProfile) -> Sampling:
        """Return the sampling of an episode: as asked for, else as its effort says for an endpoint's model."""
        sampling = replace(asked, reasoning_effort=asked.reasoning_effort or profile.reasoning_effort)
        if not sampling.max_tokens and profile.completion_tokens:
            sampling = replace(sampling, max_tokens=self._find_room(model, profile.completion_tokens))
        return cap_sampling(sampling, self.config.completion_tokens)

    def _find_room(self, model: Model, wanted: int) -> int:
        """Return the tokens of a completion; 0 for the model's own default, which models that we load have."""
        if model.engine != ENDPOINT:
            return 0
        # A request is compacted before it fills more than the trigger's share of the window; the rest is the reply's.
        room = int(model.window_tokens * (1 - self.config.window_trigger))
        return min(wanted, room) if room else wanted

    async def find_model(self, name: str) -> Model:
        """Return what policy says of a model; an empty message where it cannot be had.

        A strict maker raises ``FathomError`` while policy does not answer: the model's window decides the prompt.
        """
        try:
            return (await self.clients.policy.get_model(GetModelRequest(model=name))).model
        except FathomError as error:
            if self.is_strict and error.transient:
                raise
            # Its first completion tells why it cannot be had.
            return Model()


async def read_follow_up(
    rewriter: Rewriter | None,
    clients: Clients,
    question: str,
    history: Sequence[Message],
    model: str,
    protocol: AnyProtocol,
    as_of: Any,
    start_time: float = 0.0,
    asked: ReadText | None = None,
) -> Reading:
    """Return the question as it is understood after the turns before it.

    ``asked`` is the question as it was read before. A workflow of a language model rewrites in a stage of its own.
    """
    if rewriter is None or not history:
        return Reading(question, STAGE)
    staged = isinstance(protocol, Workflow)
    # A stage's tokens are recorded for training.
    if staged and await find_language_model(clients, model):
        return Reading(question, STAGE)
    date = resolve_today(as_of, start_time or time.time())
    return await rewriter.rewrite(question, history, "" if staged else model, date, asked, as_of)


def choose_prompts(wanted: Wanted, window_tokens: int) -> Mapping[str, str]:
    """Return the prompts that an episode wants: those asked for, and that of a report if its question asks for one.

    A small window has no room for a report.
    """
    if wanted.form != Form.REPORT or "answer" in wanted.prompts or is_small_window(window_tokens):
        return wanted.prompts
    return {**wanted.prompts, "answer": Form.REPORT.value}


def allows_data(task: Task) -> bool:
    """Return whether the task has the tool that fetches data."""
    return not task.tools or Data.name in task.tools

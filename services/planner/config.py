"""Settings of the planner; section ``planner``, ``FATHOM_PLANNER_*``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from fathom.core.config import Settings
from fathom.core.errors import InvalidField
from fathom.services.planner.model.compaction import StepPolicy, WindowSettings
from fathom.services.planner.model.effort import (
    BOUNDS,
    DEEP,
    KNOWN_MODELS,
    QUICK,
    Asked,
    Effort,
    EffortProfile,
    Granted,
    ModelProfile,
    Prices,
    grant,
)
from fathom.services.planner.model.stages import PARTS

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class McpServer(Settings):
    """One external server; only tools named here are available."""

    name: str = Field(pattern=r"^[a-z][a-z0-9]{0,23}$")
    """Prefix of its tools' names: tool ``quote`` of server ``acme`` is ``acme_quote``."""
    url: str = Field("", pattern=r"^(https?://.+)?$")
    """Endpoint of a server that speaks streamable HTTP."""
    command: tuple[str, ...] = ()
    """Program and arguments of a server that speaks on its standard streams."""
    tools: tuple[str, ...] = Field(min_length=1)
    """The tools to mount, by their own names."""
    reads: bool | None = None
    """True when its tools are read-only: their calls may run concurrently, and equal ones share a result.

    None leaves it to what the server declares of each tool (``readOnlyHint``).
    """
    timeout_s: float = Field(30.0, gt=0, le=600)
    """Longest call in seconds."""
    token_env: str = ""
    """Environment variable with the bearer token for ``url``."""
    http_headers: Mapping[str, str] = Field(default_factory=dict)
    """Headers of every request to ``url``; ``${NAME}`` in a value stands for an environment variable."""
    env: Mapping[str, str] = Field(default_factory=dict)
    """Environment of the program beside PATH and the like; ``${NAME}`` stands for a variable of the planner's own."""
    cache_s: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds for which a result of a read-only tool answers equal calls; 0 shares those in flight alone."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> McpServer:
        if bool(self.url) == bool(self.command):
            raise ValueError(f"server {self.name!r} needs either a url or a command")
        if self.token_env and not self.url:
            raise ValueError(f"server {self.name!r} has a token but no url")
        if self.http_headers and not self.url:
            raise ValueError(f"server {self.name!r} has http_headers but no url")
        if self.env and not self.command:
            raise ValueError(f"server {self.name!r} has env but no command")
        return self

    # Both are read when a connection is made, so that no secret is part of the settings.
    def headers(self) -> dict[str, str]:
        """Return the headers of a request; raise ``InvalidField`` for a variable that is not set."""
        token = os.environ.get(self.token_env, "") if self.token_env else ""
        given = {"authorization": f"Bearer {token}"} if token else {}
        return given | fill_variables(self.http_headers, f"mcp_servers.{self.name}.http_headers")

    def environment(self) -> dict[str, str]:
        """Return the variables of the program; raise ``InvalidField`` for a variable that is not set."""
        return fill_variables(self.env, f"mcp_servers.{self.name}.env")


def fill_variables(values: Mapping[str, str], field: str) -> dict[str, str]:
    """Return the values with environment variables in the place of ``${NAME}``; raise ``InvalidField``."""

    def fill(name: str, match: re.Match[str]) -> str:
        found = os.environ.get(match.group(1))
        if found is None:
            raise InvalidField(f"{field}.{name}", f"the environment has no {match.group(1)}")
        return found

    return {name: VARIABLE.sub(partial(fill, name), value) for name, value in values.items()}


class Config(Settings):
    """Settings of the planner.

    ``max_rounds``, ``max_tokens``, ``max_run_ms`` and ``window_tokens`` are the limits of standard effort, and of
    trainers' episodes, which can only tighten them. The first three, where they are set, also cap every other effort.
    """

    default_model: str = "planner"
    """Model, or role of policy's settings, of runs without one."""
    max_question_chars: int = Field(default=8_000, ge=1, le=100_000)
    """Longest question in characters."""
    max_rounds: int = Field(default=20, ge=1, le=200)
    """Rounds of sampling and tool calls per episode."""
    max_tokens: int = Field(default=200_000, ge=64)
    """Tokens sampled per episode in all."""
    max_run_ms: int = Field(default=180_000, ge=1_000)
    """Longest time per episode in milliseconds, without waits in queues and for services that are away."""
    completion_tokens: int = Field(default=0, ge=0)
    """Cap of tokens per completion; 0 sets none."""
    quick: EffortProfile = QUICK
    """Limits of quick effort; fields that are left out keep their defaults."""
    deep: EffortProfile = DEEP
    """Limits of deep effort; fields that are left out keep their defaults."""
    model_profiles: Mapping[str, ModelProfile] = Field(default_factory=dict)
    """Particulars of each model, by its name in policy's settings."""
    tool_timeout_s: float = Field(default=60.0, gt=0)
    """Longest single tool call in seconds."""
    frames_by_reference: bool = True
    """True lets sandboxes read tables from the object store; otherwise each table is sent with its call (31 MiB)."""
    tool_deadlines_s: Mapping[str, float] = Field(default_factory=dict)
    """Deadlines of individual tools in seconds, overriding ``tool_timeout_s``."""
    concurrent_tool_calls: int = Field(default=64, ge=1)
    """Concurrent calls of one tool, over all runs of this process."""
    # A run that delegates holds its place while its sub-run needs one, so a limit on ``delegate`` could deadlock.
    concurrent_calls_by_tool: Mapping[str, int] = Field(default_factory=lambda: {"delegate": 0})
    """The same for individual tools, over all planners; 0 sets no limit."""
    calls_per_second_by_tool: Mapping[str, float] = Field(default_factory=dict)
    """Calls per second of individual tools over all planners, for upstreams that count them."""
    # Longer than the restart of a service.
    tool_patience_s: float = Field(default=30.0, ge=0)
    """Seconds that a user's run waits in all for tools that are away or full, before a call counts as failed."""
    rollout_patience_s: float = Field(default=300.0, ge=0)
    """The same for a trainer's episode, which then ends as failed, to be played again."""
    think_chars: int = Field(default=200, ge=0)
    """Recommended length of a thought in characters; 0 recommends none (to measure what the model does)."""
    max_delegations: int = Field(default=4, ge=0, le=16)
    """Sub-questions that one run may delegate; 0 disables the tool."""
    delegated_rounds: int = Field(default=8, ge=1, le=200)
    """Rounds of a delegated run."""
    delegated_tokens: int = Field(default=40_000, ge=64)
    """Tokens sampled in a delegated run."""
    prompt_price: float = Field(default=0.0, ge=0)
    """Price per million prompt tokens; 0 is free."""
    completion_price: float = Field(default=0.0, ge=0)
    """Price per million sampled tokens."""
    # A currency is not named anywhere: prices and limit only have to agree.
    max_cost: float = Field(default=0.0, ge=0)
    """Cost limit per episode in the currency of the prices; 0 sets no limit."""
    memory_tokens: int = Field(default=500, ge=0, le=8_000)
    """Most tokens of a prompt for what is remembered of its user, by an upper estimate; 0 uses no memory."""
    concurrent_runs: int = Field(default=8, ge=1)
    """Concurrent runs of this process."""
    max_queued_runs: int = Field(default=1_000, ge=1)
    """Runs of one lane that wait; further ones are refused with a delay."""
    max_queue_s: float = Field(default=120.0, gt=0)
    """Longest expected wait in seconds of a new run; above it new ones are refused with a delay."""
    outage_s: float = Field(default=120.0, ge=0)
    """Seconds that a run waits in all for services that it cannot go on without; then it ends as failed."""
    concurrent_rollouts: int = Field(default=16, ge=1)
    """Concurrent episodes of one Rollout request; requests can lower it."""
    concurrent_tasks: int = Field(default=4, ge=1)
    """Concurrent tasks of queued rollouts in this process, per lane."""
    # A missed beat must not cost the run its delivery, so at least two fit into the queue's ack_wait.
    heartbeat_s: float = Field(default=2.0, gt=0)
    """Seconds between heartbeats of a running run to the queue; well below the queue's ack_wait."""
    recall_tokens: int = Field(default=600, ge=0, le=8_000)
    """Most tokens of a prompt for turns of the conversation that are older than its window; 0 recalls none."""
    recall_timeout_s: float = Field(default=5.0, gt=0)
    """Seconds that a run waits for memory before it goes on without."""
    mcp_servers: tuple[McpServer, ...] = ()
    """External tool servers, each with the tools that are allowed."""
    # A program runs with the planner's rights, so naming one among the servers is not enough.
    mcp_commands: bool = False
    """True allows servers that are programs started by this process."""
    prompt_dir: Path | None = None
    """Folder with additional prompts."""
    prompt_versions: Mapping[str, int] = Field(default_factory=dict)
    """Prompt version by stage (research, answer, restate, and those of a workflow); other stages use the newest."""
    prompt_seed: int = 0
    """Seed that selects the examples in prompts and their layout; a fixed seed keeps the prefix identical."""
    answer_form: str = "conclusion"
    """Form of answers for which no request names another: a variant of the stage ``answer``."""
    restate_question: bool = True
    """True asks the model to restate the question before it answers; shown in the trace, not in the answer."""
    correct_answers: bool = True
    """True returns an answer with findings to the model, once; findings are marked either way."""
    correct_coverage: bool = True
    """True returns an answer that leaves parts of the question open to the model, once; they are named either way."""
    rollout_coverage: bool = False
    """True compares answers with their questions in rollouts too, which adds a round to some episodes of a training."""
    judge_claims: bool = False
    """True asks the role ``judge`` to read the statements of an answer as typed claims, which are then computed and
    looked up; one call per ten statements of a text."""
    answer_material_tokens: int = Field(default=3_000, ge=200)
    """Tokens of the material list in a correction, by an upper estimate."""
    answer_least_chars: int = Field(default=0, ge=0)
    """Characters below which an answer has a finding, as a reader sees them: without markup and citations; 0 is off."""
    answer_most_chars: int = Field(default=0, ge=0)
    """Characters above which an answer has a finding, counted likewise; 0 is off."""
    workflow_widening: frozenset[str] = frozenset({"frameworks", "indicators", "association"})
    """Sources that enrich a workflow's plan: analysis frameworks, related indicators, names suggested by the model."""
    workflow_framework_tokens: int = Field(default=2_500, ge=100)
    """Tokens of the frameworks in a plan's prompt, by an upper estimate."""
    workflow_material_tokens: int = Field(default=12_000, ge=500)
    """Tokens of the material list that a workflow's answer is written from, by an upper estimate."""
    workflow_reflects: bool = True
    """True lets a workflow review its results once and collect what is missing; False is for ablations."""
    # The encoder lives in datafetch; its first answer waits until the weights are loaded.
    classify_s: float = Field(default=3.0, gt=0, le=60)
    """Seconds to wait for the vectors of a question; without them its routing is unsure."""
    route_model_s: float = Field(default=15.0, gt=0, le=120)
    """Seconds that a language model may take to route or to rewrite a question."""
    clarify: Literal["auto", "off"] = "off"
    """``auto`` asks back once per conversation when it is not sure what a follow-up means; ``off`` answers the
    likeliest meaning at once and shows it as a guess."""
    corpus: str = ""
    """Corpus to search; empty means retrieval's default."""
    search_r1_documents: int = Field(default=3, ge=1, le=20)
    """Documents returned by a search of the search_r1 protocol; more of them make longer episodes."""
    step_policy: StepPolicy = StepPolicy.HYBRID
    """Treatment of earlier steps when a request grows too long; a request may choose another."""
    window_tokens: int = Field(default=40_000, ge=1_024)
    """Working window in tokens of the model that reads it; limited by the model's own window."""
    window_soft_tokens: int = Field(default=28_000, ge=512)
    """Target size of a compaction."""
    window_trigger: float = Field(default=0.70, gt=0, lt=1)
    """Share of the window at which a request is compacted."""
    keep_results: int = Field(default=5, ge=1)
    """Newest tool results that a compaction leaves unchanged."""
    keep_steps: int = Field(default=2, ge=1)
    """Newest steps that a compaction never removes."""
    summary_tokens: int = Field(default=800, ge=64)
    """Limit of tokens for notes about earlier steps, written by the model of the role ``writer``."""

    def efforts(self, model: str) -> Mapping[Effort, EffortProfile]:
        """Return the limits of each effort for a model."""
        standard = EffortProfile(
            max_rounds=self.max_rounds,
            max_tokens=self.max_tokens,
            max_run_ms=self.max_run_ms,
            window_tokens=self.window_tokens,
        )
        base = {
            Effort.QUICK: QUICK.overlaid(self.quick),
            Effort.STANDARD: standard,
            Effort.DEEP: DEEP.overlaid(self.deep),
        }
        # A window that somebody has set is meant for every model.
        known = {} if "window_tokens" in self.model_fields_set else KNOWN_MODELS
        own = {**known, **self.model_profiles}.get(model, ModelProfile()).efforts
        return {effort: limits.overlaid(own.get(effort, EffortProfile())) for effort, limits in base.items()}

    def grant(self, asked: Asked, model: str) -> Granted:
        """Return the limits of a run."""
        # A limit that somebody has set is meant for the whole server; a default is only that of standard effort.
        caps = {name: getattr(self, name) for name in BOUNDS if name in self.model_fields_set}
        return grant(asked, self.efforts(model), caps)

    def prices(self, model: str) -> Prices:
        """Return the prices of a model: its own, else the planner's."""
        own = self.model_profiles.get(model, ModelProfile())
        return Prices(
            self.prompt_price if own.prompt_price is None else own.prompt_price,
            self.completion_price if own.completion_price is None else own.completion_price,
            own.cached_price,
        )

    @property
    def longest_run_ms(self) -> int:
        """Return the longest time of any run in milliseconds."""
        models = ("", *self.model_profiles)
        return max(self.grant(Asked(effort), model).limits.max_run_ms for model in models for effort in Effort)

    def make_window(self, tokens: int) -> WindowSettings:
        """Return the window settings for a window of this size, with the target's share of it."""
        soft = min(self.window_soft_tokens, self.window_tokens) * tokens // self.window_tokens
        return replace(self.window, tokens=tokens, soft_tokens=soft)

    @property
    def window(self) -> WindowSettings:
        """Return the window settings as one value."""
        return WindowSettings(
            self.step_policy,
            self.window_tokens,
            min(self.window_soft_tokens, self.window_tokens),
            self.window_trigger,
            self.keep_results,
            self.keep_steps,
        )

    @field_validator("workflow_widening")
    @classmethod
    def _parts_are_known(cls, parts: frozenset[str]) -> frozenset[str]:
        # Sorted, so that the message does not depend on the order of a set.
        unknown = sorted(parts - set(PARTS))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
        return parts

    @model_validator(mode="after")
    def _servers_are_allowed(self) -> Config:
        names = [server.name for server in self.mcp_servers]
        # The name is the prefix of a server's tools, which would shadow each other.
        if len(set(names)) < len(names):
            raise ValueError("mcp_servers: two servers have one name")
        commands = [server.name for server in self.mcp_servers if server.command]
        if commands and not self.mcp_commands:
            raise ValueError(f"mcp_servers: {commands[0]!r} starts a program, which mcp_commands does not allow")
        return self

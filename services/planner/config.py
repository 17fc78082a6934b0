"""Settings of the planner; section ``planner``, ``FATHOM_PLANNER_*``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from fathom.config import Settings
from services.planner.mcp.settings import McpServer
from services.planner.window.record import StepPolicy, WindowSettings
from services.planner.workflow.record import PARTS


class Config(Settings):
    """Settings of the planner; requests can only tighten its limits."""

    default_model: str = "planner"
    """Model, or role of policy's settings, of runs without one."""
    max_question_chars: int = Field(default=8_000, ge=1, le=100_000)
    """Longest question in characters."""
    max_rounds: int = Field(default=20, ge=1, le=200)
    """Rounds of sampling and tool calls per episode."""
    max_tokens: int = Field(default=200_000, ge=64)
    """Tokens sampled per episode in all."""
    max_run_ms: int = Field(default=180_000, ge=1_000)
    """Longest wall-clock time per episode in milliseconds, including the wait in the queue."""
    completion_tokens: int = Field(default=0, ge=0)
    """Limit of tokens per completion; requests can lower it, 0 uses the model's own default."""
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
    """The same for individual tools; 0 sets no limit."""
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
    max_cost: float = Field(default=0.0, ge=0)
    """Cost limit per episode in the currency of the prices; 0 sets no limit."""
    concurrent_runs: int = Field(default=8, ge=1)
    """Concurrent runs of this process."""
    concurrent_rollouts: int = Field(default=16, ge=1)
    """Concurrent episodes of one Rollout request; requests can lower it."""
    concurrent_tasks: int = Field(default=4, ge=1)
    """Concurrent tasks of queued rollouts in this process, per lane."""
    heartbeat_s: float = Field(default=3.0, gt=0)
    """Seconds between heartbeats of a running run to the queue; well below the queue's ack_wait."""
    mcp_servers: tuple[McpServer, ...] = ()
    """External tool servers, each with the tools that are allowed."""
    mcp_commands: bool = False
    """True allows servers that are programs started by this process."""
    prompt_dir: Path | None = None
    """Folder with additional prompts."""
    prompt_versions: Mapping[str, int] = Field(default_factory=dict)
    """Prompt version by stage (research, answer, restate, and those of a workflow); other stages use the newest."""
    prompt_seed: int = 0
    """Seed that selects the examples in prompts and their layout; a fixed seed keeps the prefix identical."""
    answer_variants: Mapping[str, float] = Field(
        default_factory=lambda: {"conclusion": 1.0, "evidence": 1.0, "sections": 1.0}
    )
    """Weights of the answer styles."""
    restate_question: bool = True
    """True asks the model to restate the question before it answers; shown in the trace, not in the answer."""
    correct_answers: bool = True
    """True returns an answer with findings to the model, once; findings are marked either way."""
    judge_events: bool = False
    """True asks the role ``judge`` which events of an answer the material does not support; one call per text."""
    answer_material_tokens: int = Field(default=3_000, ge=200)
    """Tokens of the material list in a correction, by an upper estimate."""
    workflow_widening: frozenset[str] = frozenset({"frameworks", "indicators", "association"})
    """Sources that enrich a workflow's plan: analysis frameworks, related indicators, names suggested by the model."""
    workflow_framework_tokens: int = Field(default=2_500, ge=100)
    """Tokens of the frameworks in a plan's prompt, by an upper estimate."""
    workflow_material_tokens: int = Field(default=12_000, ge=500)
    """Tokens of the material list that a workflow's answer is written from, by an upper estimate."""
    workflow_reflects: bool = True
    """True lets a workflow check once what is missing and collect again; False is for ablations."""
    corpus: str = ""
    """Corpus to search; empty means retrieval's default."""
    search_r1_documents: int = Field(default=3, ge=1, le=20)
    """Documents returned by a search of the search_r1 protocol; more of them make longer episodes."""
    step_policy: StepPolicy = StepPolicy.HYBRID
    """Treatment of earlier steps when a request grows too long; a request may choose another."""
    window_tokens: int = Field(default=24_000, ge=1_024)
    """Working window in tokens of the model that reads it; limited by the model's own window."""
    window_soft_tokens: int = Field(default=16_000, ge=512)
    """Target size of a compaction."""
    window_trigger: float = Field(default=0.70, gt=0, lt=1)
    """Share of the window at which a request is compacted."""
    keep_results: int = Field(default=5, ge=1)
    """Newest tool results that a compaction leaves unchanged."""
    keep_steps: int = Field(default=2, ge=1)
    """Newest steps that a compaction never removes."""
    summary_tokens: int = Field(default=800, ge=64)
    """Limit of tokens for notes about earlier steps, written by the model of the role ``writer``."""

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
        unknown = sorted(parts - set(PARTS))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
        return parts

    @model_validator(mode="after")
    def _servers_are_allowed(self) -> Config:
        names = [server.name for server in self.mcp_servers]
        if len(set(names)) < len(names):
            raise ValueError("mcp_servers: two servers have one name")
        commands = [server.name for server in self.mcp_servers if server.command]
        if commands and not self.mcp_commands:
            raise ValueError(f"mcp_servers: {commands[0]!r} starts a program, which mcp_commands does not allow")
        return self

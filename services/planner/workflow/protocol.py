"""The workflow as a protocol: which prompts it speaks with. How it is played is ``pipeline``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fathom.protocol.messages import Message, Sampling
from services.planner.model import Task
from services.planner.prompting import WORKFLOW_STAGES, Prompts
from services.planner.workflow.widening import Widener


@dataclass(frozen=True)
class Workflow:
    """Rewrite, plan, collect, reflect once, answer; over the tools, the material and the ending of an agent's run."""

    said: Prompts
    widener: Widener
    material_tokens: int = 12_000
    """Tokens of the list of material in the last stage, by an upper estimate."""
    reflects: bool = True
    """Whether the run looks once at what it has; off for ablations (row W21)."""

    tags = False

    def opening(self, task: Task) -> tuple[Message, ...]:
        """None: each stage is asked by itself."""
        return ()

    def sampling(self, task: Task) -> Sampling:
        return task.sampling

    def prompt_hash(self, task: Task) -> str:
        return self.said.hash(task, WORKFLOW_STAGES)

    def prompts(self, question: str, key: str, wanted: Mapping[str, str]) -> Mapping[str, str]:
        """Prompt ids by stage; raises ``InvalidField`` for a wanted one that is not there."""
        return self.said.choose(question, key, wanted, WORKFLOW_STAGES)

    def nudge(self) -> None:
        """None: a stage is not told of its budget."""
        return None

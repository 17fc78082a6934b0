"""Workflow protocol: prompts and sampling of the pipeline, which ``pipeline`` executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fathom.protocol.messages import Message, Sampling
from services.planner.model import Task
from services.planner.prompting import WORKFLOW_STAGES, Prompts
from services.planner.workflow.widening import Widener


@dataclass(frozen=True)
class Workflow:
    """Protocol of the fixed pipeline; tools, material and ending are those of an agent's run."""

    said: Prompts
    widener: Widener
    material_tokens: int = 12_000
    """Budget of the material list in the last stage, in tokens by an upper estimate."""
    reflects: bool = True
    """False skips the reflect stage, for ablations."""

    tags = False

    def opening(self, task: Task) -> tuple[Message, ...]:
        """Return (), because each stage has its own prompt."""
        return ()

    def sampling(self, task: Task) -> Sampling:
        return task.sampling

    def prompt_hash(self, task: Task) -> str:
        return self.said.hash(task, WORKFLOW_STAGES)

    def prompts(self, question: str, key: str, wanted: Mapping[str, str]) -> Mapping[str, str]:
        """Return prompt ids by stage; raise ``InvalidField`` when a wanted one does not exist."""
        return self.said.choose(question, key, wanted, WORKFLOW_STAGES)

    def nudge(self) -> None:
        """Return None, because stages receive no budget reminders."""
        return None

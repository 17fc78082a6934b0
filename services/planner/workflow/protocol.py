"""Workflow protocol: prompts and sampling of the pipeline, which ``pipeline`` executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fathom.domain.chat.messages import Message, Sampling
from fathom.services.planner.model.episode import Task
from fathom.services.planner.prompts.selection import WORKFLOW_STAGES, Prompts
from fathom.services.planner.workflow.enrichment import Enricher


@dataclass(frozen=True)
class Workflow:
    """Protocol of the fixed pipeline; tools, material and ending are those of an agent's run."""

    prompt_set: Prompts
    enricher: Enricher
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
        return self.prompt_set.hash(task, WORKFLOW_STAGES)

    def prompts(self, question: str, wanted: Mapping[str, str], window_tokens: int = 0) -> Mapping[str, str]:
        """Return prompt ids by stage; raise ``InvalidField`` when a wanted one does not exist."""
        return self.prompt_set.choose(question, wanted, WORKFLOW_STAGES)

    def nudge(self) -> None:
        """Return None, because stages receive no budget reminders."""
        return None

"""Users' questions as RL prompts, in the parquet schema of ``fathom.trainers.data.records`` (verl's layout).

The reference of a prompt is the answer that a user approved, or wrote in the place of the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.core.errors import InvalidField
from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.trainers.data.export.conversation import ROLES, conversations
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.records import Record, write

SOURCE, ABILITY, SPLIT = "fathom_runs", "research", "train"


class RlPrompts:
    """Collects prompts; each question once, with the answers that were approved for it."""

    def __init__(self, judged: Mapping[str, memory.Feedback], grader: str, scrubber: Scrubber) -> None:
        self._judged, self._grader, self._scrubber = judged, grader, scrubber
        self._found: dict[str, Record] = {}

    def add(self, run: Trajectory, *, is_run: bool) -> str:
        """Add a run's question; return why it was left out, "" when it was not."""
        if not is_run:
            return "it is a rollout, whose task is a prompt already"
        judgement = self._judged.get(run.run_id)
        if judgement is None or not (judgement.helpful or judgement.edited_answer):
            return "its user has not approved the answer"
        target = self._scrubber.clean_text(judgement.edited_answer or run.answer.markdown).strip()
        parts = conversations(run, keep_failed=True)
        if not target or not parts:
            return "it has no answer"
        clean, _ = self._scrubber.clean(parts[0])
        first = next((place for place, item in enumerate(clean.said) if item.step >= 0), len(clean.said))
        opening = clean.before(first).messages
        question = self._scrubber.clean_text(run.understood or run.question)
        known = self._found.get(question)
        targets = (*(known.targets if known else ()), target)
        self._found[question] = Record(
            SOURCE,
            tuple((ROLES[message.role], message.content) for message in opening if message.content.strip()),
            ABILITY,
            tuple(dict.fromkeys(targets)),
            SPLIT,
            known.index if known else len(self._found),
            run.run_id,
            question,
            "zh" if HAN_CHARACTER.search(question) else "en",
            self._grader,
        )
        return ""

    def write(self, target: Path) -> int:
        """Write the file if there is any prompt; return their number. Raises ``InvalidField``."""
        if target.suffix != ".parquet":
            raise InvalidField("target", f"{target} must end in .parquet, in which RL prompts are")
        if self._found:
            write(list(self._found.values()), target)
        return len(self._found)

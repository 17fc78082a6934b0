"""What becomes of the text with which the model ends an episode."""

from __future__ import annotations

from typing import Protocol

from fathom.protocol.messages import Message
from services.planner.answering.citations import check_citations
from services.planner.model import Answer, Episode


class Ending(Protocol):
    """Makes the answer, or says what the model must mend first; raises ``FathomError``."""

    async def finish(self, text: str, episode: Episode) -> Answer | Message: ...


class CitedEnding:
    """The text with citations that resolve."""

    async def finish(self, text: str, episode: Episode) -> Answer:
        checked = check_citations(text, [material.number for material in episode.material])
        model = episode.steps[-1].completion.model
        return Answer(checked.markdown, checked.cited, checked.unresolved, model)

"""The answer while the model writes it: what readers may see before any check, in the form that the checked one has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from fathom.protocol.drafts import ArgumentDraft, ProseDraft
from services.planner.answering.parsing import AnswerParser, Citation, Event, FigureBlock
from services.planner.answering.review import resolved


class Pieces(Protocol):
    """Finds the answer's characters in a completion."""

    def feed(self, piece: str) -> str: ...


@dataclass
class Draft:
    """Pieces of a completion in, pieces of Markdown out: no HTML, no citation of what is not there, no figure's code.

    Whitespace comes with what follows it, so that the pieces joined begin as the answer does.
    """

    numbers: Collection[int]
    """Material that may be cited."""
    found: tuple[Pieces, ...]
    _parser: AnswerParser = field(default_factory=AnswerParser)
    _space: str = ""
    _begun: bool = False

    @classmethod
    def of(cls, numbers: Collection[int], prose: bool) -> Draft:
        """``prose`` says that an answer without a call would be taken."""
        call = ArgumentDraft("finish", "answer")
        return cls(numbers, (call, ProseDraft()) if prose else (call,))

    def feed(self, piece: str) -> str:
        """What ``piece`` adds for readers."""
        said = "".join([reader.feed(piece) for reader in self.found])
        return self._told(self._parser.feed(said)) if said else ""

    def end(self) -> str:
        """What was held back until it was clear that nothing follows."""
        return self._told(self._parser.close())

    def _told(self, events: list[Event]) -> str:
        shown = [event for event in events if not isinstance(event, FigureBlock)]
        if shown and isinstance(shown[0], Citation) and not set(shown[0].numbers) & set(self.numbers):
            self._space = self._space.removesuffix(" ")  # as in the whole text, where it goes with the citation
        found, _, _ = resolved(shown, self.numbers)
        text = self._space + found if self._begun else found.lstrip()
        bare = text.rstrip()
        self._space = text[len(bare) :]
        self._begun = self._begun or bool(bare)
        return bare

"""Streaming of the answer while the model writes it, in the format of the final answer but before verification."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from fathom.domain.chat.drafts import ArgumentDraft, ProseDraft
from fathom.services.planner.answering.parsing import AnswerParser, Citation, Event, FigureBlock
from fathom.services.planner.answering.verification.review import render_markdown


class Pieces(Protocol):
    """Incremental extractor of the answer's characters from a completion."""

    def feed(self, piece: str) -> str: ...


@dataclass
class Draft:
    """Converter of completion pieces to Markdown pieces, without HTML, unknown citations or figure code."""

    numbers: Collection[int]
    """Numbers of the material that may be cited."""
    found: tuple[Pieces, ...]
    _parser: AnswerParser = field(default_factory=AnswerParser)
    _space: str = ""
    _begun: bool = False

    @classmethod
    def of(cls, numbers: Collection[int], prose: bool) -> Draft:
        """Create a draft; with ``prose``, text outside of a ``finish`` call counts as the answer too."""
        call = ArgumentDraft("finish", "answer")
        return cls(numbers, (call, ProseDraft()) if prose else (call,))

    def feed(self, piece: str) -> str:
        """Return the Markdown that ``piece`` adds."""
        said = "".join([reader.feed(piece) for reader in self.found])
        return self._render(self._parser.feed(said)) if said else ""

    def end(self) -> str:
        """Return the Markdown held back until the end of the completion."""
        return self._render(self._parser.close())

    def _render(self, events: list[Event]) -> str:
        shown = [event for event in events if not isinstance(event, FigureBlock)]
        if shown and isinstance(shown[0], Citation) and not set(shown[0].numbers) & set(self.numbers):
            self._space = self._space.removesuffix(" ")  # as in the whole text, where it goes with the citation
        found, _, _ = render_markdown(shown, self.numbers)
        text = self._space + found if self._begun else found.lstrip()
        # Held back until text follows: the whole answer is stripped at its end, and what was streamed must be a prefix
        # of it.
        bare = text.rstrip()
        self._space = text[len(bare) :]
        self._begun = self._begun or bool(bare)
        return bare

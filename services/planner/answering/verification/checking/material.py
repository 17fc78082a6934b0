"""Material for the check of an answer: sources by number, the names that they know, and the user's own words."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.planner.answering.verification.comparison.comparisons import ComparisonCheck
from fathom.services.planner.answering.verification.evidence import Source, index_line
from fathom.services.planner.answering.verification.lookup import add_acronyms
from fathom.services.planner.model.episode import MaterialKind


class CheckedMaterial:
    """Indexed sources of one answer, shared by all of its checks."""

    def __init__(self, question: str, sources: Sequence[Source]) -> None:
        """Index the sources; ``question`` has the user's words, whose numbers and dates need no source."""
        self.sources = {source.number: source for source in sources}
        self.asked = index_line(question)
        known: dict[str, tuple[str, ...]] = {}
        for source in sources:
            known.update(source.aliases)
        self.known = add_acronyms(known)
        self._checks: dict[tuple[int, ...], ComparisonCheck] = {}
        names = (name for words in self.known.values() for name in words)
        self.names = "\n".join([question, *(source.about.text for source in sources), *names])
        measured = [label for source in sources for label in source.labels.values()]
        # Lower case: what the data are about, by the names of entities and quantities.
        self.subjects = "\n".join([self.names, *measured]).lower()
        self.corpus = {source.number: source.text.lower() for source in sources}

    def list_others(self, read: Sequence[Source]) -> list[Source]:
        """Return the sources that are not among some."""
        return [source for source in self.sources.values() if source not in read]

    def choose_comparisons(self, read: Sequence[Source]) -> ComparisonCheck:
        """Return the check of comparisons against some sources, or against all tables where these have none."""
        of_tables = [source for source in read if source.series]
        # A calculation is made from the tables of the run, and names neither their columns nor their days.
        if not of_tables and not any(source.kind is MaterialKind.PASSAGE for source in read):
            of_tables = [source for source in self.sources.values() if source.series]
        used = [*of_tables, *(source for source in read if not source.series)]
        # Answers cite the same few sources again and again.
        key = tuple(source.number for source in used)
        if key not in self._checks:
            self._checks[key] = ComparisonCheck(used, self.known)
        return self._checks[key]

"""Completion of a program by words of its question that no step uses, where their place in it is beyond doubt.

The learned reader has no function for some of what is asked, and passes over words. Each completion here has one
pattern of the question's mentions; a program that it does not fit stays as it is, and the words stay named as unused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from fathom.core.errors import InvalidField
from fathom.domain.programs.language import Call, parse, render
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.parser.mention import Mention
from fathom.services.datafetch.programs.catalogue import Entry
from fathom.services.datafetch.programs.completing.comparisons import complete_differences, correct_shares
from fathom.services.datafetch.programs.completing.conditions import (
    complete_conditions,
    complete_directions,
    complete_exclusions,
    correct_conditions,
)
from fathom.services.datafetch.programs.completing.names import (
    complete_follow_ups,
    complete_lists,
    complete_owners,
    complete_prices,
)
from fathom.services.datafetch.programs.completing.periods import (
    complete_periods,
    complete_second_periods,
    correct_years,
)
from fathom.services.datafetch.programs.completing.question import Asked, KnownSeries
from fathom.services.datafetch.programs.completing.windows import complete_windows
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Gap, Resolved
from fathom.services.datafetch.programs.wording.unused import find_unused, is_decisive

COMPLETIONS = (
    complete_windows, complete_directions, complete_conditions, complete_lists, complete_follow_ups, complete_owners,
    complete_prices,
)  # fmt: skip
# What is done with periods that no exclusion has.
OF_PERIODS = (complete_periods, complete_second_periods, complete_differences)


# Changes of programs that leave no word unused and still compute something else than what the question says.
CORRECTIONS = (correct_years, correct_conditions, correct_shares)


class Completer:
    """Completes programs over the series of the tables; thread-safe."""

    def __init__(
        self, entries: Sequence[Entry], resolve: Callable[[Sequence[Call], date], Resolved], layer: Layer
    ) -> None:
        """Take the series that programs can name, the resolution of a program, and the names of the tables."""
        self._by_id = {
            one.id: KnownSeries(one.id, one.entity, one.indicator, one.facts.frequency, one.facts.unit)
            for one in entries
        }
        self._by_place = {(one.entity, one.indicator): one for one in self._by_id.values()}
        self._resolve, self._layer = resolve, layer

    def complete(
        self, reading: ProgramReading, texts: Sequence[str], mentions: Sequence[Mention], today: date
    ) -> ProgramReading:
        """Return the reading with the program completed, or as it is; ``mentions`` are those of the last question.

        A completion counts only where fewer words of the question are left than before.
        """
        if not reading.steps:
            return reading
        for correction in CORRECTIONS:
            asked = self._ask(reading, texts, mentions, today)
            reading = self._change(reading, correction(asked), [], asked) or reading
        for completion in (*COMPLETIONS, None, *OF_PERIODS):
            asked = self._ask(reading, texts, mentions, today)
            if not asked.unused:
                break
            if completion is None:
                program, words = complete_exclusions(asked)
            else:
                program, words = completion(asked), list[str]()
            made = self._change(reading, program, words, asked)
            if made is not None:
                left = find_unused(asked.question, asked.mentions, made, self._layer)
                reading = made if weigh(left) < weigh(asked.unused) else reading
        return reading

    def _ask(self, reading: ProgramReading, texts: Sequence[str], mentions: Sequence[Mention], today: date) -> Asked:
        """Return the question beside the program of a reading."""
        unused = find_unused(texts[-1], mentions, reading, self._layer)
        return Asked(
            texts[-1], mentions, parse(reading.text), unused, self._by_id.get,
            lambda entity, indicator: self._by_place.get((entity, indicator)), today, len(texts) > 1,
        )  # fmt: skip

    def _change(
        self, reading: ProgramReading, program: Sequence[Call], words: Sequence[str], asked: Asked
    ) -> ProgramReading | None:
        """Return the reading with another program; None for the same one, and for one that cannot be computed."""
        if tuple(program) == asked.program:
            return None
        try:
            found = self._resolve(program, asked.today)
        except InvalidField:
            return None
        made = replace(
            reading,
            text=render(program),
            kind=found.kind,
            steps=found.steps,
            series=found.series,
            missing=found.missing,
            words=(*found.words, *words),
            assumptions=found.assumptions,
            last=found.last,
        )
        return None if made.missing else made


def weigh(unused: Sequence[Gap]) -> tuple[int, int]:
    """Return how many words keep a program from being used, and how many words are left at all."""
    return sum(is_decisive(one.reason) for one in unused), len(unused)

"""The walk through the tools for one question: a calculation, tables, documents or a refusal, as its data are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fathom.domain.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.profile.guidance import find_value
from fathom.domain.profile.kinds import Kind
from fathom.domain.programs.reading import Reading
from fathom.domain.programs.resolved import ResolvedProgram
from fathom.domain.tool_results import Sheet, Step, list_columns
from fathom.domain.writing import wording
from fathom.domain.writing.calculation import Calculation, list_gaps
from fathom.domain.writing.wording import cite, join
from fathom.services.policy.reference.answer import compose
from fathom.services.policy.reference.calls import LINK_CONFIDENCE, Call, Written, finish
from fathom.services.policy.reference.documents import (
    Quotation,
    choose_alike,
    choose_hits,
    group_answers,
    list_nearest,
    list_quotations,
    name_alike,
)
from fathom.services.policy.reference.wording import is_reason, load_own, say

MOST_OPEN, OPEN_CHARS = 20, 240
MOST_HITS = 12
# Currencies, and units of large amounts, as tables name them.
CODE = re.compile(r"[A-Z]{3}")
SCALED = re.compile(r"\b(?:thou|mil|bil|tril)[a-z]*\b|[千百十]?[万亿]", re.IGNORECASE)
NO_STEP = Step("data", {}, {}, "")


@dataclass(frozen=True)
class Walk:
    """The walk through the tools for one conversation, as far as its results say that it has come."""

    conversation: Conversation
    tools: frozenset[str]
    written: Written | None = None
    """Reading of the question by a model, in place of the data tool's own program."""
    rater: Rater = field(default_factory=Rater)
    """Says which passages answer."""

    def next(self) -> Call:
        """Return the next call, ``finish`` when nothing is left to try or only that is allowed."""
        for step in () if self.conversation.is_last_round else self._list_steps():
            call = step()
            if call is not None and call.tool in self.tools:
                return call
        # A draft that the planner gives back is given again: all that can be looked for was looked for.
        left = list(dict.fromkeys(text[:OPEN_CHARS] for text in self.list_open() if text))[:MOST_OPEN]
        return finish(self._compose(), left)

    def _list_steps(self) -> list[Callable[[], Call | None]]:
        """Return what may be called, in order; what is done already returns no call."""
        one, documents = self.calculation, [self._search, self._read]
        if not self._questions:
            return [self._ask, *documents]
        if self._is_quoted:
            return [self._read]
        # Before what the tables lack is said to be missing.
        first = documents if self.conversation.has_own_documents and not self._is_certain else []
        if self._gaps:
            return first
        steps = [self._calculate] if one is not None else [self._convert, self._look_up]
        # Documents have reasons, and what the tables do not have.
        has_reasons = is_reason(self.conversation.question) or not (one or self._sheets)
        return [*first, *steps, *(documents if has_reasons else [])]

    @cached_property
    def _questions(self) -> list[Step]:
        """Return the questions so far: the second asks the same in the currency or the unit that the user prefers."""
        return [step for step in self.conversation.of("data") if "question" in step.arguments]

    @property
    def _is_converted(self) -> bool:
        """Return whether the preferred currency or unit could be had."""
        return len(self._questions) > 1 and self._questions[1].is_ok

    @property
    def _question(self) -> Step:
        """Return the question that counts."""
        return self._questions[self._is_converted] if self._questions else NO_STEP

    @cached_property
    def _reading(self) -> Reading:
        return Reading.from_step(self._question)

    @cached_property
    def _program(self) -> ResolvedProgram | None:
        """Return the program if it says with all names, periods and numbers of the question what that asks for."""
        program = ResolvedProgram.from_json(self._questions[0].head.get("program")) if self._questions else None
        if program is None or not self._judge(program).is_likely:
            return None
        # A follow-up's words are only a part of what is asked.
        is_whole = self.conversation.is_follow_up or not program.leaves_out
        return program if is_whole and program.link_confidence >= LINK_CONFIDENCE else None

    @cached_property
    def calculation(self) -> Calculation | None:
        """Return the calculation of the program; None where the question's own table is the one value it looks up."""
        program, sheets = self._program, self._question.head.get("sheets", ())
        if program is None or not program.is_computable or "python" not in self.tools:
            return None
        columns = list_columns(sheets[0]) if len(sheets) == 1 and sheets[0].get("rows") == 1 else []
        if program.is_lookup and [one.get("indicator") for one in columns] == [program.series[0].indicator]:
            return None
        return Calculation(self.conversation, program, self._reading, self._judge(program).is_certain)

    @property
    def _is_certain(self) -> bool:
        """Return whether a calculation is surely all that the question asks for: the user's documents add nothing."""
        return self.calculation is not None and self.calculation.is_certain

    def _judge(self, program: ResolvedProgram) -> Written:
        """Return how sure the reading of the question is, of a model where one has written the program."""
        return self.written or Written.from_program(program)

    @cached_property
    def _sheets(self) -> list[Sheet]:
        """Return the tables of the question; none for one that asks for texts."""
        is_for_texts = self._program is not None and self._program.kind == "documents" and "search" in self.tools
        return [] if is_for_texts else self._question.sheets

    @cached_property
    def _quotations(self) -> list[Quotation]:
        return list_quotations(self.conversation, self._reading, self.rater)

    @cached_property
    def _answers(self) -> list[Quotation]:
        """Return the quotations that may be given as the answer."""
        return [one for one in self._quotations if one.is_answer]

    @cached_property
    def _nearest(self) -> list[Quotation]:
        """Return the quotations that may answer, without those that are shown beside an answer."""
        shown = group_answers(self._answers, self._quotations)
        return list_nearest([one for one in self._quotations if one not in shown], self.conversation.has_own_documents)

    @property
    def _shows_nearest(self) -> bool:
        """Return whether passages of the user's own documents are shown as the nearest ones, none being an answer."""
        # Tables of a question that was not understood may be others than those that it asks for.
        is_looked_up = self.calculation is None and bool(self._sheets) and self._program is not None
        is_understood = self._is_certain or is_looked_up
        is_open = not (is_understood or self._answers)
        return self.conversation.has_own_documents and bool(self._nearest) and is_open

    @cached_property
    def _is_quoted(self) -> bool:
        """Return whether the user's own documents say what is asked, so that no series is looked for."""
        return self.conversation.has_own_documents and self.calculation is None and bool(self._answers)

    @property
    def _has_rivals(self) -> bool:
        """Return whether the search ranks another passage above all that are quoted as the answer."""
        return self._is_quoted and bool(self._nearest) and not self._nearest[0].is_behind(self._answers)

    @cached_property
    def _gaps(self) -> list[str]:
        """Return what the question asks for and is not here, with the reason; none to go on."""
        return list_gaps(self._program, self._reading, self.conversation)

    @cached_property
    def _limits(self) -> list[str]:
        """Return which series have no data in the period that is asked for, where nothing else was found."""
        is_empty = self.calculation is None and not self._sheets and not self._answers
        return [say("ended", self.conversation.is_zh, *one) for one in self._reading.limits] if is_empty else []

    def list_open(self) -> list[str]:
        """Return what of the question stays open."""
        if self.calculation is not None:
            # Figures are no reason: "why did it rise" is not answered by how much.
            lacks_reason = is_reason(self.conversation.question) and not self._answers
            reason = [say("no_reason", self.conversation.is_zh)] if lacks_reason else []
            return [*self.calculation.list_open(), *reason]
        if self._is_quoted:
            return [say("contested", self.conversation.is_zh, self.conversation.question)] if self._has_rivals else []
        if self._shows_nearest:
            # All of the question, which has the words that the tables do not know.
            return [say("unsure", self.conversation.is_zh, self.conversation.question)]
        if self._gaps or self._reading.not_understood:
            return self._gaps or list(self._reading.not_understood)
        if self._sheets:
            return [] if self._program is not None else [wording.say("doubtful", self.conversation.is_zh)]
        return [] if self._answers else self._limits or [self.conversation.question]

    def _compose(self) -> str:
        """Return the answer from what was found, without what only led to it."""
        one, is_zh = self.calculation, self.conversation.is_zh
        gaps = self._gaps or self._limits
        nearest = [say("unanswered", is_zh), *self._write_quotations(self._nearest)] if self._nearest else []
        if gaps and not self._is_quoted:
            refused = f"{join(gaps, is_zh)}{cite(self._question.material)}{'。' if is_zh else '.'}"
            return "\n\n".join([*(nearest if self._shows_nearest else ()), refused])
        sheets = one.used_sheets if one is not None else [] if self._is_quoted else self._sheets
        computed = one.write_paragraphs() if one is not None else []
        quotes = self._write_quotations(self._answers)
        # Passages that may not answer stand where nothing else does, and say so.
        if self._shows_nearest or not (quotes or sheets or computed):
            quotes = nearest
        elif self._has_rivals:
            quotes += [say("others", is_zh), *self._write_quotations(self._nearest)]
        placed = one.placed_sheets if one is not None else None
        return compose(self.conversation, sheets, quotes, computed, placed=placed, is_converted=self._is_converted)

    def _write_quotations(self, quotations: Sequence[Quotation]) -> list[str]:
        """Return the paragraphs of quotations, with those of files of nearly the same name, which are named."""
        shown, is_zh = group_answers(quotations, self._quotations), self.conversation.is_zh
        alike = name_alike([one.source for one in shown], self.conversation.of("fetch"), is_zh)
        return [*(one.write(is_zh) for one in shown), *alike]

    def _ask(self) -> Call:
        given = {"program": self.written.text} if self.written is not None and self.written.text else {}
        return Call("data", {"question": self.conversation.question[:2000], **given})

    def _calculate(self) -> Call | None:
        calls = self.calculation.list_calls() if self.calculation is not None else ()
        return next((Call(tool, arguments) for tool, arguments in calls), None)

    def _convert(self) -> Call | None:
        """Ask once more in the currency or the unit that the user prefers; what the question itself asks for binds."""
        if len(self._questions) > 1 or self._reading.texts("output"):
            return None
        # The tables say whether there is anything to convert: a rate in per cent is in no currency.
        units = [str(column.get("unit", "")) for sheet in self._sheets for column in list_columns(sheet)]
        currency, unit = (find_value(self.conversation.memory, kind) for kind in (Kind.CURRENCY, Kind.UNITS))
        wanted = f"in {currency}" if currency and any(CODE.fullmatch(one) and one != currency for one in units) else ""
        # Only where the source counts in thousands or more; a share price is no large amount.
        if unit and not wanted and any(SCALED.search(one) for one in units):
            wanted = load_own()["units"][unit]
        return Call("data", {"question": f"{self.conversation.question[:1900]} {wanted}"}) if wanted else None

    def _look_up(self) -> Call | None:
        """Ask the catalogue for words that the data tool does not know, when it knows no other."""
        unknown = " ".join(self._reading.not_understood)
        is_done = self._reading.texts("entity", "indicator") or self._sheets or self.conversation.of("catalogue")
        return Call("catalogue", {"query": unknown[:500]}) if unknown and not is_done else None

    def _search(self) -> Call | None:
        if self.conversation.of("search"):
            return None
        # Of one's own documents more are looked at, since the likeliest is chosen by what it means.
        more = {"top_k": MOST_HITS} if self.conversation.has_own_documents and self.rater.has_meanings else {}
        return Call("search", {"query": self.conversation.question[:2000], **more})

    def _read(self) -> Call | None:
        if found := self._answers:
            chosen = choose_alike(self.conversation, found, self.rater)
        else:
            chosen = choose_hits(self.conversation, self.rater)
        calls = [Call("fetch", {"id": ident}) for ident in chosen]
        return replace(calls[0], beside=tuple(calls[1:])) if calls else None

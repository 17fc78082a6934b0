"""The judgement of typed claims: formulas are computed from the columns, quotations looked up in the documents.

A claim that cannot be computed, or whose quotations are not there, is undecided: its writer may have misread the
statement. Only what was computed, or what no cited document gives, contradicts a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fathom.domain.text.folding import keep_letters
from fathom.services.planner.answering.verification.evidence import Source
from fathom.services.planner.answering.verification.numbers import find_numbers, is_close
from fathom.services.planner.answering.verification.typed.claim import Form, TypedClaim
from fathom.services.planner.answering.verification.typed.formula import Evaluator
from fathom.services.planner.answering.verification.typed.stated import explain_number, read_number
from fathom.services.planner.answering.verification.typed.values import FormulaError, Scalar
from fathom.services.planner.model.episode import MaterialKind

# Two words occur in any document.
FEWEST_QUOTED = 4


class Outcome(StrEnum):
    """Outcome of a claim."""

    HOLDS = "holds"
    FALSE = "false"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Judgement:
    """Outcome of a claim, and why it is false or undecided."""

    outcome: Outcome
    why: str = ""


HOLDS = Judgement(Outcome.HOLDS)


class ClaimJudge:
    """Judge of the claims of one answer."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._evaluator = Evaluator(sources)

    def judge(self, claim: TypedClaim, statement: str, cited: Sequence[int]) -> Judgement:
        """Return the judgement of a claim of a statement that cites some sources."""
        try:
            if claim.flaw:
                raise FormulaError(claim.flaw)
            # A claim about words that the statement does not have was made of another sentence.
            for words in (claim.words, claim.number, claim.said_unit):
                if not is_quoted(words, statement):
                    raise FormulaError(f"{words!r} is not in the statement")
            if not keep_letters(claim.words):
                raise FormulaError("the claim names no words of the statement")
            if claim.form is Form.FORMULA:
                return make_judgement(self._explain_formula(claim))
            if claim.form is Form.UNIT:
                return make_judgement(self._explain_unit(claim, cited))
            return make_judgement(self._explain_quotation(claim, cited))
        except FormulaError as error:
            return Judgement(Outcome.UNDECIDED, str(error))

    def _explain_formula(self, claim: TypedClaim) -> str:
        """Return why a formula does not hold or does not give the stated number; raise ``FormulaError``."""
        found = self._evaluator.evaluate(claim.formula)
        if isinstance(found, bool) and not claim.number:
            return "" if found else "the numbers say the opposite"
        if not isinstance(found, Scalar) or not claim.number:
            raise FormulaError("the formula is neither a condition nor a value with its number")
        return explain_number(claim.number, found, claim.comparison)

    def _explain_unit(self, claim: TypedClaim, cited: Sequence[int]) -> str:
        """Return that the material has another unit; raise ``FormulaError`` where its words are not there."""
        if not claim.held_unit or claim.held_unit.lower() == claim.said_unit.lower():
            raise FormulaError("the claim names no other unit")
        if not any(is_quoted(claim.held_unit, text) for number in cited for text in self._list_texts(number)):
            raise FormulaError(f"{claim.held_unit!r} is not in the cited material")
        return f"the material has it in {claim.held_unit}, the statement in {claim.said_unit}"

    def _list_texts(self, number: int) -> list[str]:
        """Return the text of a source and the units of its columns."""
        source = self._sources.get(number)
        return [source.text, *(one.unit for one in source.series)] if source else []

    def _explain_quotation(self, claim: TypedClaim, cited: Sequence[int]) -> str:
        """Return why no cited document gives what is claimed; raise ``FormulaError`` for a wrong quotation."""
        # What a cell has printed gives numbers, and no cause.
        kinds = {MaterialKind.PASSAGE, MaterialKind.CODE} if claim.number else {MaterialKind.PASSAGE}
        documents = [one for number in cited if (one := self._sources.get(number)) and one.kind in kinds]
        if not documents:
            return "a table or a calculation cannot show a cause: cite a document that gives it, or leave it out"
        for words in (claim.quote, claim.against):
            if words and (
                len(keep_letters(words)) < FEWEST_QUOTED or not any(is_quoted(words, one.text) for one in documents)
            ):
                raise FormulaError(f"{words!r} is not in the cited documents")
        if claim.against:
            return f"the cited document says otherwise: {claim.against!r}"
        if not claim.quote:
            return "a second model finds no words for it in the cited document"
        if claim.number and not has_number(claim.number, claim.quote):
            raise FormulaError(f"{claim.number!r} is not read in the quotation")
        return ""


def make_judgement(why: str) -> Judgement:
    return Judgement(Outcome.FALSE, why) if why else HOLDS


def has_number(number: str, quote: str) -> bool:
    """Return whether a quotation has the number of some words, in one of the units that they may have."""
    said = read_number(number)
    candidates = said.candidates()
    return any(is_close(one.value, candidates) or is_close(-one.value, candidates) for one in find_numbers(quote))


def is_quoted(words: str, text: str) -> bool:
    """Return whether words stand in a text; nothing stands in any."""
    # A sign such as "%" has no letters.
    return keep_letters(words) in keep_letters(text) if keep_letters(words) else words in text

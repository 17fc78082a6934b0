"""Test how likely quotations answer a question, and which of them may be given as the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fathom.core.errors import CorruptData
from fathom.domain.passages import answerability
from fathom.domain.passages.answerability import (
    FILE,
    STATES,
    WORDS,
    Quoted,
    Rater,
    load_answerability,
    quote_parts,
)
from fathom.domain.passages.answers import has_all_terms, quote_document

ROWS = "Tax rate | Value: 25.8 | Unit: % | (A2:C2)\nDiscount rate | Value: 8.4 | Unit: % | (A3:C3)\n"


def test_a_row_has_to_have_all_terms_of_a_question() -> None:
    row = "Discount rate | Value: 8.4 | (A3:B3)"
    assert has_all_terms("model.xlsx", "What is the value of the discount rate?", row)
    assert not has_all_terms("model.xlsx", "What is the value of the discount rate in Peru?", row)


class SureRater(Rater):
    """Finds every quotation likely."""

    def rate(self, question: str, found: Sequence[Quoted], title: str, text: str) -> list[float]:
        return [1.0] * len(found)


@pytest.mark.parametrize(
    ("question", "is_answer"), [("What is the tax rate?", True), ("What is the tax rate in Peru?", False)]
)
def test_how_likely_a_row_is_does_not_make_up_for_a_term_that_it_lacks(question: str, is_answer: bool) -> None:
    found = quote_document(question, "model.xlsx", ROWS, SureRater())
    assert found is not None
    assert found.is_answer is is_answer


@pytest.mark.parametrize(("kind", "least"), [(WORDS, 0.30), (STATES, 0.39)])
def test_held_out_questions_that_nothing_answers_get_no_answer(kind: str, least: float) -> None:
    figures = json.loads(FILE.read_text(encoding="utf-8"))[kind]["figures"][""]
    # Of two questions that a text answers, the other one is quoted with its doubt.
    assert figures["wrongly_said"] <= 0.016
    assert figures["said_and_wrong"] <= 0.03
    assert figures["said_and_right"] >= least
    assert figures["said_and_right"] + figures["nearest_and_right"] >= 0.85


def test_a_text_without_sentences_has_nothing_to_quote() -> None:
    assert Rater().rate("Who?", quote_parts("Who?", ""), "", "") == []


def test_weights_of_other_features_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = json.loads(FILE.read_text(encoding="utf-8"))
    few = {**held[WORDS], "weights": held[WORDS]["weights"][:64]}
    (tmp_path / "few.json").write_text(json.dumps({**held, WORDS: few}))
    monkeypatch.setattr(answerability, "FILE", tmp_path / "few.json")
    with pytest.raises(CorruptData, match="do not fit the features"):
        load_answerability.__wrapped__()

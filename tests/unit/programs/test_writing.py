"""Programs as a language model writes them: without ids, and guided by a grammar over the question's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.programs.asking import read_program, write_program
from fathom.domain.programs.grammar import check_program, write_grammar
from fathom.domain.programs.language import render

EXAMPLES = Path(__file__).parents[3] / "services" / "datafetch" / "programs" / "examples"
QUESTION = 'What did "gold" return in 2011, and was it more than bitcoin?'


def test_ids_are_left_out_but_that_words_name_no_series_stays() -> None:
    program = 'ret(within(series("gold", GOLD), "2011"))\nminus(_1, ret(series("bitcoin", none)))'
    written = write_program(program)
    assert written == 'ret(within(series("gold"), "2011"))\nminus(_1, ret(series("bitcoin", none)))'
    assert render(read_program(written)) == written


@pytest.mark.parametrize(
    "text",
    [
        'ret(series("silver"))',
        'ret(within(series("gold")))',
        "minus(_1, _2)",
        'ret(series("gold"), "2011")',
        'series("")',
    ],
)
def test_a_program_that_is_not_allowed_or_has_other_words_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="program"):
        check_program(read_program(text), QUESTION)


def test_a_program_of_the_question_passes() -> None:
    check_program(
        read_program('ret(within(series("gold"), "2011"))\nminus(_1, ret(series("bitcoin", none)))'), QUESTION
    )


def test_a_question_without_words_has_no_grammar() -> None:
    with pytest.raises(InvalidField, match="question"):
        write_grammar(' "" ')


class Bytes:
    """A tokenizer whose tokens are bytes."""

    eos_token_id, bos_token_id = 256, None

    def __init__(self) -> None:
        self.tokens = [bytes([at]) for at in range(256)] + [b"<end>"]
        self.special_token_ids = [256]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def accepts(question: str, text: str) -> bool:
    """Return whether the grammar of a question accepts the whole text."""
    guidance = pytest.importorskip("llguidance")
    tokenizer = guidance.LLTokenizer(guidance.TokenizerWrapper(Bytes()))
    matcher = guidance.LLMatcher(tokenizer, guidance.LLMatcher.grammar_from_lark(write_grammar(question)))
    assert not matcher.get_error()
    return all(matcher.consume_token(token) for token in text.encode()) and bool(matcher.is_accepting())


def test_the_grammar_accepts_the_programs_that_people_have_written() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.jsonl"))]
    rows = [json.loads(line) for text in texts for line in text.splitlines()[:9]]
    alone = [row for row in rows if not row.get("turns")]
    assert len(alone) > 50
    refused = [row["id"] for row in alone if not accepts(row["question"], write_program(row["program"]))]
    assert refused == []


@pytest.mark.parametrize(
    "text",
    [
        'ret(series("silver"))',  # no word of the question
        'ret(within(series("gold")))',  # an argument too few
        'ret(series("gold"), "2011")',  # one too many
        'within("2011", series("gold"))',  # in the wrong order
        'ret(series("gold")',  # not finished
        "profit()",  # no function
    ],
)
def test_the_grammar_accepts_nothing_else(text: str) -> None:
    assert accepts(QUESTION, 'ret(series("gold"))')
    assert not accepts(QUESTION, text)

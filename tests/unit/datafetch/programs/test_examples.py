"""Examples for training, and variations of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import CorruptData
from fathom.domain.programs.automaton import State
from fathom.domain.programs.language import build, render
from fathom.services.datafetch.programs.training.__main__ import EXAMPLES
from fathom.services.datafetch.programs.training.examples import (
    Augmenter,
    Example,
    Swap,
    hash_examples,
    join,
    load_examples,
    parse_example,
    replace_words,
)
from fathom.services.datafetch.programs.weights import FILE, load_weights


def make_example(question: str, program: str, turns: tuple[str, ...] = ()) -> Example:
    return parse_example({"id": "x", "turns": list(turns), "question": question, "language": "en", "program": program})


GOLD = make_example("How high did gold get in 2010?", 'maximum(within(series("gold", GOLD), "2010"))')
POOL = [
    make_example(f"How high did {name} get in {year}?", f'maximum(within(series("{name}", {ident}), "{year}"))')
    for name, ident, year in (
        ("Apple", "AAPL", 2001), ("Coke", "KO", 2002), ("Exxon", "XOM", 2003), ("Intel", "INTC", 2004), ("oil", "WTI", 2005),
    )
]  # fmt: skip


def show(example: Example) -> tuple[str, str]:
    return example.texts[-1], render(build(example.actions))


def test_another_name_takes_its_series_along() -> None:
    found = replace_words(GOLD, {"gold": Swap("series", "Exxon Mobil", "XOM"), "2010": Swap("period", "May 2011")})
    assert show(found) == (
        "How high did Exxon Mobil get in May 2011?",
        'maximum(within(series("Exxon Mobil", XOM), "May 2011"))',
    )


def test_words_inside_of_other_quoted_words_stay() -> None:
    example = make_example("gold and gold miners", 'each(series("gold", GOLD), series("gold miners", none))')
    assert replace_words(example, {"gold": Swap("series", "oil", "WTI")}) == example


def test_two_questions_become_one() -> None:
    found = join(GOLD, POOL[0])
    assert show(found)[0] == "How high did gold get in 2010? How high did Apple get in 2001?"
    assert show(found)[1].count("\n") == 1


def test_variations_are_examples_again() -> None:
    augmenter, texts = Augmenter(POOL, [], seed=5), set()
    for _ in range(200):
        for example in POOL:
            varied, state = augmenter.vary(example), State()
            for action in varied.actions:
                assert action.token in state.next_tokens
                assert action.text is None or any(action.text in text for text in varied.texts)
                state = state.push(action.token)
            texts.add(varied.texts)
    assert len(texts) > 30


@pytest.mark.parametrize(
    "program",
    ['first(series("silver", SI))', "nothing(", 'first(series("gold", GOLD), 2)', 'average(series("gold", GOLD), 7)'],
)
def test_a_wrong_example_is_named_by_file_and_line(tmp_path: Path, program: str) -> None:
    row = {"id": "a", "question": "gold?", "language": "en", "program": program}
    (tmp_path / "some.jsonl").write_text(f"\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(CorruptData, match=r"some\.jsonl:2"):
        load_examples(tmp_path)


@pytest.mark.skipif(not FILE.exists(), reason="the weights are made by python -m fathom…programs.training")
def test_the_weights_are_of_the_examples() -> None:
    assert load_weights().version == hash_examples(load_examples(EXAMPLES))

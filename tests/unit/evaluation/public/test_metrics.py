"""Metrics of the public sets, each value worked out by hand from the definition of its authors."""

from __future__ import annotations

import pytest

from fathom.operations.evaluation.public.characters import score_characters
from fathom.operations.evaluation.public.table_answers import TableAnswer, score_table_answer
from fathom.operations.evaluation.public.words import score_multihop, score_words


@pytest.mark.parametrize(
    ("given", "accepted", "em", "f1"),
    [
        ("The Bob Russell.", ["Bobby Scott", "Bob Russell"], 1.0, 1.0),
        ("Bob Dylan", ["Bobby Scott", "Bob Russell"], 0.0, 0.5),
        ("in December 1972", ["14 December 1972 UTC", "December 1972"], 0.0, 0.8),
        ("", ["Bob Russell"], 0.0, 0.0),
    ],
)
def test_words_are_scored_by_the_best_accepted_answer(given: str, accepted: list[str], em: float, f1: float) -> None:
    assert score_words(given, accepted) == pytest.approx({"em": em, "f1": f1})


def test_a_text_around_yes_earns_no_share_where_yes_is_wanted() -> None:
    assert score_words("yes it is", ["yes"])["f1"] == pytest.approx(0.5)
    assert score_multihop("yes it is", ["yes"]) == {"em": 0.0, "f1": 0.0}
    assert score_multihop("Yes.", ["yes"]) == {"em": 1.0, "f1": 1.0}
    assert score_multihop("Hugh Capet", ["Hugh"])["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("given", "accepted", "em", "f1"),
    [
        ("《光荣》和ω-force。", ["光荣和ω-force"], 1.0, 1.0),
        # Six tokens against four: the longest run that both have is 村雨城.
        ("谜之村雨城堡", ["村雨城市"], 0.0, 2 * 3 / 10),
        # Both characters are shared, and no two of them in a row.
        ("京东", ["东京"], 0.0, 0.5),
        ("2019年3.5%", ["3.5%"], 0.0, 2 * 2 / 6),
        ("。", ["村"], 0.0, 0.0),
        ("", ["村"], 0.0, 0.0),
    ],
)
def test_characters_are_scored_by_the_longest_run(given: str, accepted: list[str], em: float, f1: float) -> None:
    assert score_characters(given, accepted) == pytest.approx({"em": em, "f1": f1})


MILLIONS = TableAnswer(("$1,496.5",), "million")
CHANGE = TableAnswer(("23.42",), "percent", "arithmetic")
LOSS = TableAnswer(("-134",), "thousand", "arithmetic")
TYPES = TableAnswer(("fixed-price type", "cost-plus type"), "", "multi-span")


@pytest.mark.parametrize(
    ("given", "wanted", "em", "f1", "scale"),
    [
        ("1,496.5 million", MILLIONS, 1.0, 1.0, 1.0),
        # The same sum in plain units is the same answer, in another scale.
        ("$1,496,500,000", MILLIONS, 1.0, 1.0, 0.0),
        ("1,496.5", MILLIONS, 0.0, 0.0, 0.0),
        ("23.42 percent", CHANGE, 1.0, 1.0, 1.0),
        ("23.42%", CHANGE, 1.0, 1.0, 0.0),
        ("0.2342", CHANGE, 1.0, 1.0, 0.0),
        ("23.5 percent", CHANGE, 0.0, 0.0, 1.0),
        ("(134) thousand", LOSS, 1.0, 1.0, 1.0),
        ("134 thousand", LOSS, 0.0, 0.0, 1.0),
        ("cost-plus type fixed-price type", TYPES, 1.0, 1.0, 1.0),
        # Two of the three different words that are wanted.
        ("the cost-plus type", TYPES, 0.0, 0.8, 1.0),
        (" ", TYPES, 0.0, 0.0, 0.0),
    ],
)
def test_answers_over_tables_are_scored_in_their_scale(
    given: str, wanted: TableAnswer, em: float, f1: float, scale: float
) -> None:
    assert score_table_answer(given, wanted) == {"em": em, "f1": f1, "scale": scale}

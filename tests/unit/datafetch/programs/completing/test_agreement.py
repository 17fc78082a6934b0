"""Links of the learned reader beside what the reading by rules finds for the same words."""

from __future__ import annotations

from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.agreement import NamedWords, find_named, list_named

QUESTION = "consumer prices and payrolls"
PRICES = Mention(MentionKind.INDICATOR, 0, 15, "cpiaucns")
JOBS = Mention(MentionKind.INDICATOR, 20, 28, "payems")


def test_only_names_that_leave_no_choice_count() -> None:
    unsure = Mention(MentionKind.INDICATOR, 20, 28, "payems", others=("paynsa",))
    typo = Mention(MentionKind.INDICATOR, 20, 28, "payems", how="typo")
    wanted = (NamedWords("consumer prices", "US", "cpiaucns"),)
    assert list_named(QUESTION, [PRICES, unsure]) == list_named(QUESTION, [PRICES, typo]) == wanted


def test_the_words_of_a_series_name_one_or_none() -> None:
    named = list_named(QUESTION, [PRICES, JOBS])
    assert find_named("Consumer prices (not seasonally adjusted)", named) == named[0]
    assert find_named(QUESTION, named) is None
    assert find_named("gold", named) is None

"""Long texts are summarised by the same part at the first search and at later ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fathom.services.retrieval.index.long_texts import ENTRY_BYTES, PartFinder, split_parts
from fathom.services.retrieval.index.text import PART_CHARS, find_part, summarise, tokenise

FILLER = "The committee met and spoke of other matters. "
FACT = "The hurdle rate for U.S. plants is 11.5 percent of 1,200 dollars. "
QUERY = set(tokenise("hurdle rates of US plants 1200"))


def hide(place: int) -> str:
    """Return a long text with the fact behind the sentence at this place."""
    text = (FILLER * 1_400)[:60_000]
    at = text.rfind(". ", 0, place) + 2 if place else 0
    return text[:at] + FACT + text[at:]


@pytest.mark.parametrize("place", [0, 30_000, 59_000])
def test_a_text_that_is_found_again_has_the_same_summary(place: int) -> None:
    text, finder = hide(place), PartFinder()
    summaries = [summarise(text, QUERY, 200, finder.find) for _ in range(3)]
    assert summaries == [summarise(text, QUERY, 200)] * 3
    assert FACT.strip() in summaries[0]


def test_a_text_is_split_when_it_is_found_for_the_second_time_and_then_no_more() -> None:
    text, finder = hide(30_000), PartFinder()
    sizes = []
    for _ in range(3):
        finder.find(text, QUERY)
        sizes.append(finder.size_bytes)
    assert sizes == [0, split_parts(text).size_bytes + ENTRY_BYTES, split_parts(text).size_bytes + ENTRY_BYTES]


def test_a_part_has_each_of_its_terms_once_and_none_of_another() -> None:
    terms = split_parts("rate " * (PART_CHARS // 5) + "bond yield " * 10)
    assert sorted(terms.parts) == [0, 1, 1]
    assert [terms.find_best({term}) for term in ("rate", "bond", "yield", "nothing")] == [0, 1, 1, 0]
    assert terms.find_best(set()) == 0


def test_the_terms_that_are_kept_have_a_bound() -> None:
    texts = [hide(place) for place in range(0, 60_000, 12_000)]
    bound = 2 * (split_parts(texts[0]).size_bytes + ENTRY_BYTES) + 1_000
    finder = PartFinder(bound)
    for text in texts * 3:
        assert finder.find(text, QUERY) == find_part(text, QUERY)
        assert finder.size_bytes <= bound


def test_searches_at_once_find_what_one_finds() -> None:
    texts, finder = [hide(place) for place in (0, 30_000, 50_000)] * 8, PartFinder()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: finder.find(text, QUERY), texts))
    assert found == [find_part(text, QUERY) for text in texts]

"""Programs that somebody else has written: what is linked, how likely the reader holds them, what is refused."""

from __future__ import annotations

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.programs.asking import read_program
from fathom.domain.programs.language import build, render
from fathom.services.datafetch.programs.conversation import Conversation, Place, Stretch
from fathom.services.datafetch.programs.following import follow
from tests.unit.datafetch.programs.test_search import FIRST, ScriptedDecoder

# Two pieces in front of the words, as in the scripted decoder.
PLACES = (Place(-1, 0, 0), Place(0, 0, 5), Place(0, 5, 8), Place(0, 9, 12), Place(0, 13, 16))
TALK = Conversation(("first of the VIX",), (1, 2, 3, 4, 5), (1, 1, 1, 1, 1), PLACES)


def test_a_given_program_is_linked_and_as_likely_as_the_reader_holds_it() -> None:
    found = follow(ScriptedDecoder(FIRST), TALK, read_program('first(series("the VIX"))'))
    assert render(build(found.actions)) == 'first(series("the VIX", VIX))'
    assert found.link == pytest.approx(0.9)
    # The words are given: no choice of theirs counts.
    assert found.confidence == pytest.approx(0.8 ** (1 / 6), abs=1e-4)


def test_words_that_its_author_knows_no_series_of_are_not_linked() -> None:
    found = follow(ScriptedDecoder(FIRST), TALK, read_program('first(series("the VIX", none))'))
    assert render(build(found.actions)) == 'first(series("the VIX", none))'
    assert found.link == 1.0


@pytest.mark.parametrize("text", ['first(series("gold"))', "first(_1)", 'within(series("the VIX"))', 'members("x", y)'])
def test_a_program_with_other_words_or_that_is_not_allowed_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="program"):
        follow(ScriptedDecoder(FIRST), TALK, read_program(text))


def test_a_program_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidField, match="at most"):
        follow(ScriptedDecoder(FIRST), TALK, read_program("\n".join(['first(series("the VIX"))'] * 30)))


def test_words_are_found_in_the_last_turn_that_has_them() -> None:
    places = (Place(0, 0, 4), Place(1, 0, 4), Place(1, 5, 9))
    talk = Conversation(("gold", "gold 2011"), (1, 2, 3), (0, 1, 1), places)
    assert talk.find_stretch("gold") == Stretch(1, 1, "gold")
    assert talk.find_stretch("old 20") == Stretch(1, 2, "old 20")
    assert talk.find_stretch("silver") is None
    assert talk.find_stretch(" ") is None

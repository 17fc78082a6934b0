"""Beam search, over a decoder that says what is likely at each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.domain.programs.language import END, INDEX, TOKENS, build, render
from fathom.services.datafetch.programs.conversation import Stretch
from fathom.services.datafetch.programs.search import search

VIX = Stretch(3, 4, "the VIX")
UNLIKELY = -20.0


class ScriptedDecoder:
    """Gives each text so far the likelihoods of the tokens behind it; all others are unlikely."""

    def __init__(self, script: Mapping[str, Mapping[str, float]], *, has_words: bool = True, link: float = 0.9) -> None:
        self._script, self._has_words, self._link = script, has_words, link
        self.rows: list[str] = []
        self.widest = 0

    def advance(
        self, parents: Sequence[int], tokens: Sequence[int], quoted: Sequence[Stretch | None]
    ) -> NDArray[np.float32]:
        before = self.rows or [""]
        self.rows = [f"{before[row]} {TOKENS[token]}".strip() for row, token in zip(parents, tokens, strict=True)]
        self.widest = max(self.widest, len(self.rows))
        out = np.full((len(self.rows), len(TOKENS)), UNLIKELY, np.float32)
        for row, text in enumerate(self.rows):
            for token, chance in self._script.get(text.removeprefix("<bos>").strip(), {}).items():
                out[row, INDEX[token]] = np.log(chance)
        return out

    def find_words(self, row: int) -> tuple[float, Stretch] | None:
        return (np.log(0.5), VIX) if self._has_words else None

    def link(self, row: int, stretches: Sequence[Stretch]) -> tuple[str | None, float]:
        assert set(stretches) == {VIX}
        return ("VIX", self._link) if self._link > 0.5 else (None, 1 - self._link)


FIRST = {
    "": {"first(": 0.8, "series(": 0.2},
    "first(": {"series(": 1.0},
    "first( series(": {"SPAN": 1.0},
    "first( series( SPAN": {")": 1.0},
    "first( series( SPAN )": {")": 1.0},
    "first( series( SPAN ) )": {END: 1.0},
    "series(": {"SPAN": 1.0},
    "series( SPAN": {")": 1.0},
    "series( SPAN )": {END: 1.0},
}


def test_the_likeliest_program_comes_first_with_its_words_and_its_series() -> None:
    found = search(ScriptedDecoder(FIRST))
    assert [render(build(path.actions)) for path in found[:2]] == [
        'first(series("the VIX", VIX))',
        'series("the VIX", VIX)',
    ]
    assert found[0].score == pytest.approx(np.log(0.8) + np.log(0.5), abs=1e-4)
    assert found[0].confidence == pytest.approx((0.8 * 0.5) ** (1 / 6), abs=1e-4)
    assert found[0].link == pytest.approx(0.9)


def test_a_name_that_no_series_has_is_none() -> None:
    found = search(ScriptedDecoder(FIRST, link=0.2))
    assert render(build(found[0].actions)) == 'first(series("the VIX", none))'
    assert found[0].link == pytest.approx(0.8)


def test_a_token_that_is_not_allowed_is_not_written_however_likely() -> None:
    script = {**FIRST, "first(": {"SPAN": 0.99, "series(": 0.01}}
    assert all("first( SPAN" not in " ".join(a.token for a in path.actions) for path in search(ScriptedDecoder(script)))


def test_without_words_to_quote_nothing_that_needs_them_is_written() -> None:
    found = search(
        ScriptedDecoder(
            {"": {"series(": 0.9, "chat(": 0.1}, "chat(": {")": 1.0}, "chat( )": {END: 1.0}}, has_words=False
        )
    )
    assert render(build(found[0].actions)) == "chat()"


def test_the_beam_is_as_wide_as_asked() -> None:
    decoder = ScriptedDecoder(FIRST)
    search(decoder, beam=1)
    assert decoder.widest == 1


def test_a_program_that_has_no_end_is_given_up() -> None:
    assert search(ScriptedDecoder({}), beam=2, most=2) == []


def test_nothing_is_related_to_itself() -> None:
    """The likelier "rate(VIX, VIX)" is no answer to anything."""
    second = "rate( series( SPAN )"
    script = {
        "": {"rate(": 1.0},
        "rate(": {"series(": 1.0},
        "rate( series(": {"SPAN": 1.0},
        "rate( series( SPAN": {")": 1.0},
        second: {"series(": 0.9, "EUR": 0.1},
        f"{second} series(": {"SPAN": 1.0},
        f"{second} series( SPAN": {")": 1.0},
        f"{second} series( SPAN )": {")": 1.0},
        f"{second} series( SPAN ) )": {END: 1.0},
        f"{second} EUR": {")": 1.0},
        f"{second} EUR )": {END: 1.0},
    }
    assert [render(build(path.actions)) for path in search(ScriptedDecoder(script))] == [
        'rate(series("the VIX", VIX), EUR)'
    ]

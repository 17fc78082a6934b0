"""Quotes of documents: whole sentences, with what follows them and may limit what they say."""

from __future__ import annotations

from fathom.services.policy.backends.rules.passages import quote_of
from fathom.services.policy.backends.rules.reading import Step

NOTE = (
    "The price return of a security is its last price divided by its first price, minus one; it leaves out the"
    " dividends that were paid to its holders over the whole of the period that is looked at, whatever they were."
    " With adjusted closing prices the same formula gives the total return. State both days."
)


def quote(body: str, query: str) -> str:
    found = quote_of(Step("fetch", {}, {"status": "ok", "title": "Note", "material": 1}, body), query)
    assert found is not None
    return found.text


def test_a_quote_has_the_sentence_that_limits_it() -> None:
    assert quote(NOTE, "price return dividends") == NOTE


def test_a_quote_ends_with_a_sentence_and_its_paragraph() -> None:
    long = f"{NOTE} {'More was said about it. ' * 30}"
    text = quote(long, "price return dividends")
    assert text.endswith("about it.")
    assert len(text) <= 600
    assert quote(f"{NOTE}\n\nAnother paragraph is about bonds.", "price return dividends") == NOTE

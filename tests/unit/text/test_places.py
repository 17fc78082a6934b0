"""The place of a passage names file and page, and the file can be read from it again."""

from __future__ import annotations

import pytest

from fathom.domain.text.places import drop_page, name_page


@pytest.mark.parametrize(
    ("page", "confidence", "place"),
    [(0, 0.0, "p. 4 of it.pdf"), (2, 0.0, "p. 4 of it.pdf p. 2"), (12, 0.974, "p. 4 of it.pdf p. 12 (OCR 97 %)")],
)
def test_a_place_leads_back_to_its_file(page: int, confidence: float, place: str) -> None:
    assert name_page("p. 4 of it.pdf", page, confidence) == place
    assert drop_page(place) == "p. 4 of it.pdf"

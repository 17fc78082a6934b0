"""Forms in which texts are compared: what each leaves out, and what it keeps apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fathom.domain.text.folding import fold_width, join_words, keep_letters, remove_blanks, ungroup_digits

ALL = (fold_width, join_words, remove_blanks, keep_letters, ungroup_digits)


@pytest.mark.parametrize(
    ("fold", "text", "folded"),
    [
        (fold_width, "ＧＤＰ of Straße", "gdp of strasse"),
        (join_words, " Free  cash\nflow ", "free cash flow"),
        (remove_blanks, "苹果 2020 年", "苹果2020年"),
        (keep_letters, "“It fell 3.5 %”,\nhe said", "itfell35hesaid"),
        (keep_letters, "%", ""),
        (ungroup_digits, "1,000, or １，０００", "1000, or 1000"),
        (ungroup_digits, "In 2020, 3 of them", "in 2020, 3 of them"),
    ],
)
def test_each_form_leaves_out_what_it_says(fold: Callable[[str], str], text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize("fold", ALL)
def test_no_form_looks_at_case_or_width(fold: Callable[[str], str]) -> None:
    assert fold("Ｒevenue ２０２０") == fold("revenue 2020")

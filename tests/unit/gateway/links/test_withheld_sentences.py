"""Test that what an answer says of a file that is not shared leaves its text by its citations, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.services.gateway.links.sentences import withhold_text

NOTE = "(not shared)"
OWN = frozenset({2})


def withhold(markdown: str) -> str:
    return withhold_text(markdown, OWN, NOTE)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        # By sentence, with the citation before or behind its full stop; an uncited sentence of the block may go on.
        ("Sales rose 5 % [1]. The hurdle is 9 % [2]. It was 8 %.", "Sales rose 5 % [1]. *(not shared)* [2]"),
        ("The hurdle is 9 %. [2] Sales rose by 5.5 % to 3.1 bn. [1]", "*(not shared)* [2] Sales rose by 5.5 % to 3.1 bn. [1]"),
        ("Both agree [1, 2].", "*(not shared)* [1] [2]"),
        ("门槛利率为9%。[2]营业收入增长5%。[1]", "*(not shared)* [2] 营业收入增长5%。[1]"),
        # Another block without a citation is nobody's.
        ("The hurdle is 9 % [2].\n\nRead the footnotes.", "*(not shared)* [2]\n\nRead the footnotes."),
        ("> \"We close on 3 May\" [2]\n> they say", "> *(not shared)* [2]"),
        ("## Hurdle 9 % [2]\n\nText [1].", "## *(not shared)* [2]\n\nText [1]."),
        ("- Apple: 4 % [1]\n- hurdle: 9 % [2]\n  - in words: nine", "- Apple: 4 % [1]\n- *(not shared)* [2]\n  - *(not shared)*"),
        ("The memo says [2]:\n\nNine percent.", "*(not shared)* [2]\n\n*(not shared)*"),
        ("As in the memo [2]:\n\n```\nrate = 9\n```\nEnd [1].", "*(not shared)* [2]\n\n*(not shared)*\n\nEnd [1]."),
        # Places of tables stay: what is withheld of them is said there.
        ("The rate of 9 % [2] is in {{table:sheet_2}}.\n\n{{figure:fig_1}}", "*(not shared)* [2] {{table:sheet_2}}\n\n{{figure:fig_1}}"),
        # In code a number in brackets is an index.
        ("Read `rates[2]` of the table [1].", "Read `rates[2]` of the table [1]."),
        ("Nothing is cited: 9 %.", "Nothing is cited: 9 %."),
    ],
)  # fmt: skip
def test_sentences_go_by_what_they_cite(markdown: str, shown: str) -> None:
    assert withhold(markdown) == shown


HEAD = "| company | rate |\n|---|---:|\n"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        (f"{HEAD}| Apple | 4 % [1] |\n| own | 9 % [2] |\n", f"{HEAD}| Apple | 4 % [1] |\n| *(not shared)* [2] |\n"),
        # A head that cites the file has its columns from it, and what is said of no row is of all.
        ("| company | rate [2] |\n|---|---|\n| own | 9 % |\n", "*(not shared)* [2]\n\n"),
        (f"{HEAD}| own | 9 % |\n\nSource: memo [2]", "*(not shared)*\n\n\n*(not shared)* [2]"),
        (f"Of the memo [2]\n\n{HEAD}| own | 9 % |", "*(not shared)* [2]\n\n*(not shared)*\n"),
        (f"Of the memo [2]\n\n{HEAD}| Apple | 4 % [1] |", f"*(not shared)* [2]\n\n{HEAD}| Apple | 4 % [1] |"),
    ],
)
def test_rows_of_a_table_go_by_what_they_cite(markdown: str, shown: str) -> None:
    assert withhold(markdown) == shown


SAID = st.sampled_from(
    ["{} rose by 4.5 %", '"{}", they say', "a {} of **9**", "{}营收增长", "`x[1]` is {}", "{}: see it"]
)
ENDS = st.sampled_from([" {}.", ". {}", "。{}", " {}", " {};"])
PREFIXES = st.sampled_from(["", "- ", "> ", "1. ", "## ", "- > ", "| a | ", "    - "])
BLOCKS = st.lists(
    st.tuples(PREFIXES, st.lists(st.tuples(SAID, ENDS, st.sampled_from(["[2]", "[1]", "[1, 2]", "【2】"])), min_size=1, max_size=4)),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(BLOCKS, st.sampled_from(["\n", "\n\n"]))
def test_no_cited_word_of_a_file_stays_however_the_text_is_built(
    blocks: list[tuple[str, list[tuple[str, str, str]]]], between: str
) -> None:
    lines = []
    for prefix, sentences in blocks:
        # The full-width brackets are no citation, so that the sentence cites nothing: it says nothing of the file here.
        said = (
            text.format("SECRET" if "2" in cited and "【" not in cited else "open") + end.format(cited)
            for text, end, cited in sentences
        )
        lines.append(prefix + " ".join(said))
    shown = withhold(between.join(lines))
    assert "SECRET" not in shown

"""Lines that were broken because they were full are one stretch again; lines that stand for themselves stay."""

from __future__ import annotations

import textwrap
from email.message import EmailMessage

import pytest
from fpdf import FPDF

from fathom.domain.text.terms import list_sentences, list_words
from fathom.services.retrieval.corpus.parse import ParsedDocument, parse
from fathom.services.retrieval.corpus.parse.wrapping import join_wrapped_lines

SENTENCE = (
    "After the storm of October the lenders agree to the request of the borrower. The covenant of clause 7.2 is "
    "suspended until 31 March 2027; in that time the ratio may be up to 4.50. A fee is payable in the autumn."
)
ANSWER = "The covenant of clause 7.2 is suspended until 31 March 2027;"


def write_pdf(text: str) -> bytes:
    page = FPDF()
    page.add_page()
    page.set_font("Helvetica", size=11)
    page.multi_cell(90, text=text)
    return bytes(page.output())


def write_mail(text: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@bank.example", "Covenant"
    mail.set_content(text)
    return mail.as_bytes()


@pytest.mark.parametrize("width", [46, 60, 72, 90])
@pytest.mark.parametrize(
    ("media_type", "write"),
    [
        ("application/pdf", lambda text, width: write_pdf(text)),
        ("message/rfc822", lambda text, width: write_mail(textwrap.fill(text, width))),
        ("text/plain", lambda text, width: textwrap.fill(text, width).replace("\n", "\r\n").encode()),
        ("text/markdown", lambda text, width: f"# Covenant\n\n{textwrap.fill(text, width)}".encode()),
    ],
)
def test_a_sentence_over_two_lines_is_quoted_whole(media_type: str, write: object, width: int) -> None:
    assert callable(write)
    found = [one for one in parse(write(SENTENCE, width), media_type, "covenant") if isinstance(one, ParsedDocument)]
    assert any(ANSWER in sentence for sentence in list_sentences(found[0].text))


@pytest.mark.parametrize(
    "text",
    [
        "To: the board\nFrom: the head of fish health\nDate: 29 August 2025",
        "- the first item of a list that goes on for quite a while\n- the second item of the same list, about as long",
        "# A heading that is as long as any of the lines below it\nA line below the heading that is about as long as it",
        "| a row of a table with some cells | 12 |\n| another row of a table with cells | 13 |",
        "```\nmake a program of one line that is rather long here\nmake another program of a line that is long too\n```",
        "A line of a letter that ends with a break on purpose  \nand another line of it that goes on for a while here",
        "Short line\nof a poem\nwithout any\nfull line",
    ],
)
def test_lines_that_stand_for_themselves_stay(text: str) -> None:
    assert join_wrapped_lines(text) == text


def test_chinese_is_joined_without_blanks() -> None:
    first = "甲方应在收到发票后四十五天内付款，逾期付款按年利率百分之八计息，直至全部款项付清为止，双方另有书面约"
    assert join_wrapped_lines(f"{first}\n定的除外。\n{first}") == f"{first}定的除外。\n{first}"


def test_words_with_letters_of_other_languages_are_whole() -> None:
    assert list_words("Lost at Grøtfjord, in Łódź and Malmö") == ["lost", "grøtfjord", "łódź", "malmö"]

"""From a package's member and our notes to rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.core.errors import CorruptData
from fathom.services.retrieval.documents.model import parse_document
from fathom.services.retrieval.tools.bundle import convert_news, make_title, read_notes, read_own_notes


def test_news_are_numbered_by_line_and_come_once() -> None:
    rows = convert_news(lambda member: b"First item. More.\nSecond item.\n\nFirst item. More.\n").content
    assert [(row["id"], row["title"], row["published"]) for row in rows] == [
        ("news-001", "First item.", ""),
        ("news-002", "Second item.", ""),
    ]


def test_a_long_first_sentence_is_cut_at_a_word() -> None:
    title = make_title("word " * 40)
    assert len(title) <= 110
    assert title.endswith("word…")


def test_our_notes_are_whole() -> None:
    rows = read_own_notes()
    documents = [parse_document(row) for row in rows]
    assert len({document.id for document in documents}) == len(documents) >= 24
    assert sum(document.language == "zh" for document in documents) >= 4
    assert all(document.published and document.text and document.type == "note" for document in documents)


@pytest.mark.parametrize(
    "content",
    [
        "no front matter",
        "---\ntitle: a\n---\ntext",
        "---\ntitle: a\npublished: soon\nentities: []\n---\ntext",
        "---\ntitle: a\npublished: 2026-01-01\nentities: 3\n---\ntext",
        "---\ntitle: 5\npublished: 2026-01-01\nentities: []\n---\ntext",
        "---\n[\n---\ntext",
        "---\njust words\n---\ntext",
    ],
)
def test_a_broken_note_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "odd.md").write_text(content)
    with pytest.raises(CorruptData, match=r"odd\.md"):
        list(read_notes(tmp_path))

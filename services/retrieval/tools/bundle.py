"""Builder of the bundled corpus: ``python -m fathom.services.retrieval.tools.bundle --target .fathom/data/corpus``.

Real news from a package, and our own notes in ``notes/``. Each row of ``documents.jsonl`` has id, title, text,
published (ISO date or ""), source, type, entities and language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from fathom.core.errors import CorruptData
from fathom.core.ids import content_hash
from fathom.domain.bundle.build import Converted
from fathom.domain.bundle.command import run_build
from fathom.domain.bundle.packages import Package, Reader
from fathom.services.retrieval.documents.model import DOCUMENTS, parse_document

NEWS = Package(
    "pypi", "gensim", "4.4.0", "91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8",
    "LGPL-2.1 (package); Lee background corpus", "300 Australian news items of 2001 and 2002",
)  # fmt: skip
MEMBER = "gensim/test/test_data/lee_background.cor"
# YAML between two lines of dashes, then the text.
FRONT = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)
FIRST_SENTENCE = re.compile(r"(?<=[.!?])\s")
# One line of a list of results.
TITLE_CHARS = 110
# Version of the conversion; change it when a row looks different for the same source.
CONVERTER = "corpus-2"
Rows = list[dict[str, Any]]


def convert_news(read: Reader) -> Converted[Rows]:
    """Convert the news corpus, one item per line; exact duplicates are dropped.

    The corpus does not date its items, so ``published`` stays empty: they pass no time filter, and are not served under
    ``as_of``.
    """
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(read(MEMBER).decode().split("\n"), start=1):
        text = line.strip()
        # Keyed by the text: the corpus repeats some items.
        if text and text not in rows:
            rows[text] = {
                "id": f"news-{number:03d}",
                "title": make_title(text),
                "text": text,
                "published": "",
                "source": "Lee background corpus",
                "type": "news",
                "entities": [],
                "language": "en",
            }
    return Converted(list(rows.values()), "2002-12-31")


def make_title(text: str) -> str:
    """Return the first sentence, cut at a word."""
    # The corpus has no headlines.
    first = FIRST_SENTENCE.split(text, maxsplit=1)[0]
    return first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1].rsplit(" ", 1)[0] + "…"


def read_notes(folder: Traversable) -> Iterator[dict[str, Any]]:
    """Yield the notes of a folder, Markdown with front matter; raise ``CorruptData`` naming the file."""
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".md"):
            try:
                yield convert_note(file.name.removesuffix(".md"), file.read_text(encoding="utf-8"))
            except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
                raise CorruptData(file.name, f"{type(error).__name__} {error}") from error


def read_own_notes() -> list[dict[str, Any]]:
    """Return the notes of this package."""
    return list(read_notes(resources.files("fathom.services.retrieval.corpus").joinpath("notes")))


def convert_note(name: str, content: str) -> dict[str, Any]:
    """Convert a note to a row; its front matter has title, published, entities and, unless it is English, language.

    Raises ``ValueError`` or ``KeyError`` for a malformed note.
    """
    match = FRONT.fullmatch(content)
    if match is None:
        raise ValueError("has no front matter")
    facts = yaml.safe_load(match.group(1))
    row = {
        "id": f"note-{name}",
        "title": facts["title"],
        "text": match.group(2).strip(),
        "published": facts["published"].isoformat(),
        "source": "Fathom notes",
        "type": "note",
        "entities": facts["entities"],
        "language": facts.get("language", "en"),
    }
    # Checked at build time, so that a malformed note does not reach the service.
    parse_document(row)
    return row


def write(contents: Mapping[str, Rows], folder: Path) -> Mapping[str, int]:
    """Write ``documents.jsonl``: our notes first, then the packages' documents. Returns its number of rows."""
    rows = [*read_own_notes(), *(item for rows in contents.values() for item in rows)]
    lines = [json.dumps(item, ensure_ascii=False) for item in rows]
    (folder / DOCUMENTS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {DOCUMENTS: len(rows)}


def main() -> None:
    run_build("corpus", [(NEWS, convert_news)], write, content_hash([CONVERTER, read_own_notes()]))


if __name__ == "__main__":
    main()

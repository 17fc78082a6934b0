"""Builds the corpus: ``python -m services.retrieval.bundle --target .fathom/data/corpus``.

Real news from a package, and our own notes in ``notes/``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from fathom.bundle.build import Converted, build
from fathom.bundle.packages import Package, Reader
from fathom.errors import CorruptData
from fathom.ids import content_hash

NEWS = Package(
    "pypi", "gensim", "4.4.0", "91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8",
    "LGPL-2.1 (package); Lee background corpus", "300 Australian news items of 2001 and 2002",
)  # fmt: skip
MEMBER = "gensim/test/test_data/lee_background.cor"
FRONT = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)
TITLE_CHARS = 110
Rows = list[dict[str, Any]]


def news(read: Reader) -> Converted[Rows]:
    """One item per line. The corpus gives no dates: items pass no time filter, and are not served under as_of."""
    rows = []
    for number, line in enumerate(read(MEMBER).decode("utf-8", "replace").splitlines(), start=1):
        if text := line.strip():
            first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
            title = first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1].rsplit(" ", 1)[0] + "…"
            rows.append(row(f"news-{number:03d}", title, text, "", "Lee background corpus", "news", []))
    return Converted(rows, "2002-12-31")


def row(
    ident: str, title: str, text: str, published: str, source: str, kind: str, entities: list[str]
) -> dict[str, Any]:
    return {
        "id": ident,
        "title": title,
        "text": text,
        "published": published,
        "source": source,
        "type": kind,
        "entities": entities,
    }


def notes() -> Iterator[dict[str, Any]]:
    """Our notes: Markdown with front matter; raises ``CorruptData`` naming the file."""
    folder = resources.files("services.retrieval").joinpath("notes")
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if not file.name.endswith(".md"):
            continue
        match = FRONT.fullmatch(file.read_text(encoding="utf-8"))
        if match is None:
            raise CorruptData(file.name, "has no front matter")
        facts = yaml.safe_load(match.group(1))
        ident = f"note-{file.name.removesuffix('.md')}"
        text, entities = match.group(2).strip(), list(facts.get("entities", []))
        yield row(ident, facts["title"], text, str(facts["published"]), "Fathom notes", "note", entities)


def write(contents: Mapping[str, Rows], folder: Path) -> Mapping[str, int]:
    """``documents.jsonl``."""
    rows = [*notes(), *(item for rows in contents.values() for item in rows)]
    lines = [json.dumps(item, ensure_ascii=False) for item in rows]
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"documents.jsonl": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the bundled corpus.")
    parser.add_argument("--target", type=Path, default=Path(".fathom/data/corpus"))
    recipe = content_hash(["corpus-1", list(notes())])
    build(
        parser.parse_args().target, [(NEWS, news)], write, recipe, lambda line: print(f"  corpus  {line}", flush=True)
    )


if __name__ == "__main__":
    main()

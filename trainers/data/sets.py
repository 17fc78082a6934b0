"""Readers of locally stored question-answering sets with short answers.

Each reader leaves out questions that no rule can grade: without an answer, with long answers, with several answers that
are all required, or meaningless without their passage. ``Read.left_out`` counts them by reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.core.errors import InvalidField, NotFound

# Exact match can grade a name or a figure, not a sentence: longer answers are dropped.
MAX_ANSWER_CHARS = 64
# A longer text is a document with a question in it, which no tokenizer's prompt limit would keep whole.
MAX_QUESTION_CHARS = 2_000
NO_ANSWER = "无相应参数"
NUMBER = re.compile(r"-?[\d,]*\.?\d+ ?(?:元|%|人)?")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A question with its accepted answers and the reward service's grader for them."""

    id: str
    text: str
    answers: tuple[str, ...]
    grader: str = "em"
    grader_parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """The questions of a set, and the number of rows left out, by reason."""

    questions: tuple[Question, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class QuestionSet:
    """A question set: its file below the source folder, its row reader, and the metadata of its records.

    ``read`` returns a question, or the reason for leaving the row out.
    """

    file: str
    source: str
    language: str
    ability: str
    read: Callable[[Row], Question | str]
    where: Callable[[Row], bool] = lambda row: True
    alone: bool = False
    """Leave out texts shared by several rows: they ask about a passage that the question does not name."""


def plain(id_key: str, text_key: str, answers_key: str) -> Callable[[Row], Question | str]:
    """Make a reader of rows with one answer or a list of answers, each accepted alone."""

    def read(row: Row) -> Question | str:
        answers = row[answers_key]
        return Question(
            str(row.get(id_key, "")), row[text_key], tuple([answers] if isinstance(answers, str) else answers)
        )

    return read


def tatqa(row: Row) -> Question | str:
    """Read a TAT-QA row: spans by exact match, arithmetic and counts by number, with and without their scale."""
    if row["answer_type"] == "multi-span":
        return "several answers are wanted"
    texts = [str(answer) for answer in row["answers"]]
    # Both forms are accepted, "12" and "12 million": the scale is a field of its own in the set.
    scaled = [f"{text} {row['scale']}" for text in texts] if row["scale"] else []
    number = row["answer_type"] in ("arithmetic", "count")
    return Question(row["_id"], row["text"], (*texts, *scaled), "number" if number else "em")


def finglm(row: Row) -> Question | str:
    """Read a FinGLM row: figures by number, words by exact match.

    The relative tolerance is 1 % for results of a formula and 0.1 % for figures as filed.
    """
    answer = str(row["answer"]).strip()
    if row["type"] == "1-2":
        return "several answers are wanted"
    # Words are compared as they stand; only a figure has a distance to the right one.
    if not NUMBER.fullmatch(answer):
        return Question(row["_id"], row["question"], (answer,))
    # A formula's result depends on how its inputs were rounded; a filed figure is copied.
    tolerance = 0.01 if row["formula"] else 0.001
    return Question(row["_id"], row["question"], (answer,), "number", {"rel_tol": tolerance})


def fincuge(row: Row) -> Question | str:
    """Read a FinCUGE row; rows whose answer says that there is none are left out."""
    if NO_ANSWER in row["answers"]:
        return "there is no answer"
    return Question(row["_id"], row["text"], tuple(row["answers"]))


def of_source(name: str) -> Callable[[Row], bool]:
    return lambda row: bool(row["source"] == name)


FACTS, TABLES = "fact-reasoning", "table-reasoning"
QUERIES = plain("_id", "text", "answers")
MULTIHOP = "multihop_questions/questions.jsonl"
SETS: Mapping[str, QuestionSet] = {
    "nq_open": QuestionSet("nq_open/NQ-open.dev.jsonl", "nq", "en", FACTS, plain("id", "question", "answer")),
    "qed_nq": QuestionSet("qed_nq/queries.jsonl", "qed_nq", "en", FACTS, QUERIES),
    "2wiki": QuestionSet(MULTIHOP, "2wikimultihopqa", "en", FACTS, QUERIES, of_source("2wiki")),
    "musique": QuestionSet(MULTIHOP, "musique", "en", FACTS, QUERIES, of_source("musique")),
    "webshaper": QuestionSet(
        "webshaper/webshaper.500.jsonl", "webshaper", "en", FACTS, plain("id", "question", "answer")
    ),
    "tatqa": QuestionSet("tatqa/queries_dev.jsonl", "tatqa", "en", TABLES, tatqa, alone=True),
    "cmrc2018": QuestionSet("cmrc2018/queries.jsonl", "cmrc2018", "zh", FACTS, QUERIES, alone=True),
    "fincuge": QuestionSet("fincuge_event_qa/queries.jsonl", "fincuge", "zh", FACTS, fincuge, alone=True),
    "finglm": QuestionSet("finglm_cn_annual/questions_verified.jsonl", "finglm", "zh", TABLES, finglm),
}
"""All sets with short answers, by the name that ``fathom data convert`` takes."""


def find_set(name: str) -> QuestionSet:
    """Return the set of that name; raises ``NotFound`` with the available names."""
    try:
        return SETS[name]
    except KeyError:
        raise NotFound("question set", name, sorted(SETS)) from None


def read_set(name: str, source: Path) -> Read:
    """Read all usable questions of a set in order, without repeated texts.

    Raises ``NotFound`` for an unknown set or a missing file, ``InvalidField`` naming line and field.
    """
    found = find_set(name)
    rows = [row for row in json_lines(source / found.file) if found.where(row)]
    read = [readable(found, row, f"{found.file}[{number}]") for number, row in enumerate(rows)]
    # Counted over the whole set, before any is left out: a text asked of two passages is ambiguous both times.
    texts = Counter(question.text.strip() for question in read if isinstance(question, Question))
    kept, left_out, seen = [], Counter[str](), set[str]()
    for number, question in enumerate(read):
        # In this order, so that each row is counted under one reason alone.
        reason = question if isinstance(question, str) else fault(question, texts, seen, alone=found.alone)
        if isinstance(question, str) or reason:
            left_out[str(reason)] += 1
            continue
        seen.add(question.text.strip())
        kept.append(keep_short_answers(question, f"{name}-{number}"))
    return Read(tuple(kept), dict(left_out))


def readable(found: QuestionSet, row: Row, where: str) -> Question | str:
    """Read a row; raises ``InvalidField`` naming a missing or malformed field."""
    try:
        return found.read(row)
    except (KeyError, TypeError) as error:
        raise InvalidField(where, f"is no row of this set: {error!r}") from error


def fault(question: Question, texts: Mapping[str, int], seen: set[str], *, alone: bool) -> str:
    """Return the reason for leaving out a question; "" when it is usable."""
    text = question.text.strip()
    if not 1 <= len(text) <= MAX_QUESTION_CHARS:
        return "the question is empty or too long"
    if alone and texts[text] > 1:
        return "the question means nothing without its passage"
    if text in seen:
        return "the question was there before"
    return "" if short(question.answers) else "no answer is short"


def short(answers: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct answers of at most ``MAX_ANSWER_CHARS`` characters."""
    stripped = (answer.strip() for answer in answers)
    return tuple(dict.fromkeys(answer for answer in stripped if 1 <= len(answer) <= MAX_ANSWER_CHARS))


def keep_short_answers(question: Question, number: str) -> Question:
    """Return the question with its short answers only, and an id."""
    return Question(
        question.id or number,
        question.text.strip(),
        short(question.answers),
        question.grader,
        question.grader_parameters,
    )


def json_lines(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSONL file; raises ``NotFound`` for a missing file, ``InvalidField`` naming a bad line."""
    if not path.is_file():
        raise NotFound("file", str(path))
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InvalidField(f"{path.name}[{number}]", f"is no JSON: {error}") from error

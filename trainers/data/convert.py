"""Conversion of question sets to train and test files of the prompt schema; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import InvalidField
from fathom.core.ids import sha256
from fathom.trainers.data.instructions import format_question
from fathom.trainers.data.records import Record, write
from fathom.trainers.data.sets import Question, QuestionSet, find_set, read_set

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Converted:
    """The files written, their numbers of rows, and the numbers of rows left out, by reason."""

    files: Mapping[str, Path]
    rows: Mapping[str, int]
    left_out: Mapping[str, int]


def convert(
    name: str,
    source: Path,
    target: Path,
    *,
    instruction: str = "search_r1",
    test_share: float = 0.2,
    seed: int = 7,
    limit: int | None = None,
) -> Converted:
    """Write ``target``/train.parquet and test.parquet; equal arguments give equal bytes.

    A question's split depends only on its text and ``seed``, so that it does not change when the set grows. Raises
    ``NotFound`` for an unknown set, file or instruction, ``InvalidField`` for an invalid row or share.
    """
    if not 0 < test_share < 1:
        raise InvalidField("test_share", f"{test_share} must lie between 0 and 1")
    found, read = find_set(name), read_set(name, source)
    parts: dict[str, list[Question]] = {split: [] for split in SPLITS}
    for question in read.questions:
        parts[split_of(question.text, test_share, seed)].append(question)
    files, rows = {}, {}
    for split, questions in parts.items():
        # The limit cuts each split after the draw: a smaller file has no other questions than the whole one.
        records = records_of(found, questions[:limit], split, instruction)
        files[split], rows[split] = target / f"{split}.parquet", len(records)
        write(records, files[split])
    return Converted(files, rows, read.left_out)


def split_of(text: str, test_share: float, seed: int) -> str:
    """Return "test" for ``test_share`` of all texts, else "train"; case and whitespace make no difference."""
    # A hash instead of a generator: the draw depends on the question alone, so that no question changes sides when
    # others are added, and repeats of one question cannot lie on both.
    drawn = int(sha256(f"{seed}:{' '.join(text.lower().split())}".encode())[:8], 16) / 16**8
    return "test" if drawn < test_share else "train"


def records_of(found: QuestionSet, questions: Sequence[Question], split: str, instruction: str) -> list[Record]:
    """Convert questions to records, numbered within their split."""
    return [
        Record(
            found.source,
            (("user", format_question(question.text, instruction, found.language)),),
            found.ability,
            question.answers,
            split,
            index,
            question.id,
            question.text,
            found.language,
            question.grader,
            question.grader_parameters,
        )
        for index, question in enumerate(questions)
    ]

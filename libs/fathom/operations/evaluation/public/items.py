"""Items of the public question sets, read from a folder outside of the package.

A set is in the form of its authors' evaluation: all questions, also those that no rule of a training could grade
(``fathom.trainers.data.sets`` leaves these out), and where the authors give a passage to read, that passage.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fathom.core.errors import InvalidField, NotFound
from fathom.operations.evaluation.public.characters import score_characters
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.evaluation.public.rows import read_objects
from fathom.operations.evaluation.public.sql_sets import read_bull, read_defog
from fathom.operations.evaluation.public.table_answers import TableAnswer, score_table_answer
from fathom.operations.evaluation.public.words import score_multihop, score_words

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PublicSet:
    """A set: its files below the folder of all sets, how a row is read, and whose metric its scores are."""

    file: str
    read: Callable[[Row], PublicItem]
    metric: str
    corpus: str = ""
    """File of the passages that the authors give with a question; "" where they give none."""
    source: str = ""
    """Value of a row's ``source``, for a file of several sets."""

    @property
    def has_statements(self) -> bool:
        """Return whether answers are SQL, which a model writes itself and no run of the agent."""
        return False

    def iterate(self, name: str, folder: Path) -> Iterator[PublicItem]:
        """Yield the items in the order of the file; raise ``InvalidField`` naming the line of a wrong row."""
        for place, row in read_objects(folder / self.file):
            try:
                if self.source in ("", row.get("source")):
                    yield self.read(row)
            except (KeyError, TypeError) as error:
                raise InvalidField(place, f"is no row of {name}: {error!r}") from error


@dataclass(frozen=True)
class StatementSet:
    """A set whose answers are SQL statements: its folder, how it is read, and whose metric its scores are."""

    file: str
    read: Callable[[Path], Iterator[PublicItem]]
    metric: str
    corpus: str = ""

    @property
    def has_statements(self) -> bool:
        """Return whether answers are SQL, which a model writes itself and no run of the agent."""
        return True

    def iterate(self, name: str, folder: Path) -> Iterator[PublicItem]:
        """Yield the items in the order of the files; raise ``InvalidField`` naming the line of a wrong row."""
        return self.read(folder / self.file)


def make_reader(
    score: Callable[[str, Sequence[str]], Mapping[str, float]], *, id_key: str = "_id", text: str = "text",
    answers: str = "answers", kind: str = "",
) -> Callable[[Row], PublicItem]:  # fmt: skip
    """Return a reader of rows with accepted answers; ``kind`` names the field by which the report groups them."""

    def read(row: Row) -> PublicItem:
        value = row[answers]
        accepted = (value,) if isinstance(value, str) else tuple(map(str, value))
        ident = str(row.get(id_key) or row[text])
        return PublicItem(
            ident, row[text], accepted, str(row[kind]) if kind else "", tuple(row.get("gold", ())),
            lambda given: score(given, accepted),
        )  # fmt: skip

    return read


def read_table_question(row: Row) -> PublicItem:
    """Read a row of TAT-QA, whose answers are all wanted together, in one scale."""
    wanted = TableAnswer(tuple(map(str, row["answers"])), str(row["scale"]), str(row["answer_type"]))
    return PublicItem(
        row["_id"], row["text"], wanted.values, wanted.kind, tuple(row["gold"]),
        lambda given: score_table_answer(given, wanted),
    )  # fmt: skip


MULTIHOP = "multihop_questions/questions.jsonl"
# The set whose answers are whole reports, which ``fathom.operations.evaluation.research`` reads and grades.
REPORT_SET = "deep_research_bench"
SQUAD, CMRC = "SQuAD's exact match and F1", "CMRC 2018's exact match and F1 of characters"
SETS: Mapping[str, PublicSet | StatementSet] = MappingProxyType(
    {
        "nq_open": PublicSet(
            "nq_open/NQ-open.dev.jsonl",
            make_reader(score_words, id_key="question", text="question", answers="answer"),
            SQUAD,
        ),
        "qed_nq": PublicSet("qed_nq/queries.jsonl", make_reader(score_words), SQUAD, "qed_nq/corpus.jsonl"),
        "2wiki": PublicSet(MULTIHOP, make_reader(score_multihop), "2WikiMultihopQA's exact match and F1", "", "2wiki"),
        "musique": PublicSet(MULTIHOP, make_reader(score_words), "MuSiQue's exact match and F1", "", "musique"),
        "webshaper": PublicSet(
            "webshaper/webshaper.500.jsonl",
            make_reader(score_words, id_key="id", text="question", answers="answer"),
            f"{SQUAD} (its authors ask a language model)",
        ),
        "tatqa": PublicSet(
            "tatqa/queries_dev.jsonl", read_table_question, "TAT-QA's exact match, F1 and scale",
            "tatqa/corpus_dev.jsonl",
        ),
        "cmrc2018": PublicSet("cmrc2018/queries.jsonl", make_reader(score_characters), CMRC, "cmrc2018/corpus.jsonl"),
        "fincuge": PublicSet(
            "fincuge_event_qa/queries.jsonl", make_reader(score_characters, kind="src"), CMRC,
            "fincuge_event_qa/corpus.jsonl",
        ),
        "bull": StatementSet(
            "bull_cn_text2sql", read_bull,
            "execution accuracy as in Spider's test suites, on invented rows (the authors' are not published)",
        ),
        "defog_sql": StatementSet("defog_sql", read_defog, "defog's execution accuracy, exact or with further columns"),
    }
)  # fmt: skip
"""All sets with short answers or statements, by the name that ``fathom eval public`` takes."""


def find_set(name: str) -> PublicSet | StatementSet:
    """Return the set of that name; raise ``NotFound`` with the names that there are."""
    try:
        return SETS[name]
    except KeyError:
        raise NotFound("public set", name, sorted([*SETS, REPORT_SET])) from None


def load_items(name: str, folder: Path, limit: int, seed: int) -> list[PublicItem]:
    """Return at most ``limit`` items of a set, drawn by the seed, in the order of the file.

    Raises ``NotFound`` for an unknown set or a missing file, ``InvalidField`` naming the line of a wrong row, and
    ``InvalidField("set")`` for a file without rows of the set.
    """
    found = find_set(name)
    items: dict[str, PublicItem] = {}
    for item in found.iterate(name, folder):
        # The first of an id: a question that stands twice would count twice.
        items.setdefault(item.id, item)
    if not items:
        raise InvalidField("set", f"{folder / found.file} has no row of {name}")
    rows = list(items.values())
    chosen = random.Random(seed).sample(range(len(rows)), min(limit, len(rows)))  # noqa: S311 - can be repeated
    return [rows[number] for number in sorted(chosen)]


def load_passages(name: str, folder: Path, items: Sequence[PublicItem]) -> dict[str, str]:
    """Return the passages of some items by id, titles before texts; {} for a set that comes without passages.

    Raises ``NotFound`` for a missing file, ``InvalidField`` naming the line of a wrong row or an item without passage.
    """
    found = find_set(name)
    if not found.corpus:
        return {}
    wanted, passages = {ident for item in items for ident in item.passages}, dict[str, str]()
    for place, row in read_objects(folder / found.corpus):
        try:
            if row["_id"] in wanted:
                passages[row["_id"]] = f"{row.get('title', '')}\n{row['text']}".strip()
        except (KeyError, TypeError) as error:
            raise InvalidField(place, f"is no passage of {name}: {error!r}") from error
    if missing := wanted - set(passages):
        raise InvalidField("data", f"{found.corpus} has no passage {min(missing)!r}, which a question is about")
    return passages

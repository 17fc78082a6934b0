"""Matches of a round robin: two answers to one question, and their judgement; a journal keeps them through a crash."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fathom.core.errors import CorruptData, InvalidField
from fathom.core.ids import content_hash
from fathom.domain.journal import Journal
from fathom.operations.ranking.answers import Contestant

# Grades of the left answer, as in the contract: 1 bad, 2 rather bad, 3 even, 4 rather good, 5 good.
GRADES = {"bad": 1, "rather bad": 2, "even": 3, "rather good": 4, "good": 5}
EVEN = 3


@dataclass(frozen=True)
class Pairing:
    """Two answers to one question that are to be judged."""

    question: str
    left: str
    right: str
    left_answer: str
    right_answer: str

    def make_key(self, rule: str) -> str:
        """Return a hash of everything that the judgement depends on; ``rule`` says how it is judged."""
        return content_hash([rule, self.question, self.left_answer, self.right_answer, self.left, self.right])


@dataclass(frozen=True)
class Match:
    """A judged pairing: ``grade`` is the left answer's, of five."""

    key: str
    question: str
    left: str
    right: str
    grade: int
    reason: str
    judge: str = ""

    @property
    def score(self) -> float:
        """Return the left side's score: 1 for a win, 0.5 for a tie, 0 for a loss."""
        return 0.5 if self.grade == EVEN else float(self.grade > EVEN)


def pair_all(contestants: Sequence[Contestant]) -> list[Pairing]:
    """Return each question's pairings of all contestants who have it; raise ``InvalidField`` where none have one."""
    if len(contestants) < 2:
        raise InvalidField("files", "a ranking needs two contestants")
    questions = dict.fromkeys(question for one in contestants for question in one.answers)
    found = [
        Pairing(question, one.name, other.name, one.answers[question], other.answers[question])
        for question in questions
        for one, other in itertools.combinations(contestants, 2)
        if question in one.answers and question in other.answers
    ]
    if not found:
        raise InvalidField("files", "no two contestants have answered the same question")
    return found


class MatchJournal:
    """Matches in a file, appended as they are judged; one whose writing was cut off is judged again."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)

    def read(self) -> dict[str, Match]:
        """Return the matches by key; raise ``CorruptData`` for a whole line that is none."""
        found: dict[str, Match] = {}
        for number, row in enumerate(self._journal.read(), 1):
            try:
                match = Match(**row)
            except TypeError as error:
                raise CorruptData(f"{self._journal.path}:{number}", str(error)) from error
            found[match.key] = match
        return found

    def append(self, matches: Sequence[Match]) -> None:
        """Write matches through to the disk."""
        self._journal.append(asdict(match) for match in matches)

"""Probe for narrow hallucination: what a model knew before it was aligned, and answers wrongly afterwards.

The same short questions of common knowledge are asked of two models or versions. A fact counts as lost that the first
answers rightly and the second wrongly; facts that only the second knows are the other side of the same chance, so that
McNemar's test holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import Field

from fathom.core.errors import CorruptData
from fathom.domain.grading.text import tokens
from fathom.operations.evaluation.items import Closed, read_rows
from fathom.operations.shadow.gate import wilson


class Fact(Closed):
    """Question of common knowledge with the answers that are accepted."""

    id: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    language: str = "en"
    question: str = Field(min_length=1)
    accepted: tuple[str, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Share:
    """Number of questions out of some, with Wilson's 95 % interval of their share."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval; all of it where there is nothing to count."""
        # The usual interval has no width at shares of 0 and 1, which are common among few questions of one topic.
        return wilson(self.count, self.of)

    def describe(self) -> str:
        """Return count, share and interval in words."""
        low, high = self.interval
        share = f"{self.count / self.of:.1%}" if self.of else "no share"
        return f"{self.count} of {self.of}, {share} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True)
class Comparison:
    """Replies of two models to the same questions: what both know, what was lost, what was gained."""

    facts: tuple[Fact, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]

    def list_facts(self, *, was_right: bool, is_right: bool) -> list[Fact]:
        """Return the facts that the two answer in this way."""
        return [
            fact
            for fact in self.facts
            if (is_right_reply(fact, self.before[fact.id]), is_right_reply(fact, self.after[fact.id]))
            == (was_right, is_right)
        ]

    def list_lost(self) -> list[Fact]:
        """Return what was known before and is wrong after: the narrow hallucinations."""
        return self.list_facts(was_right=True, is_right=False)

    def list_gained(self) -> list[Fact]:
        """Return what was wrong before and is right after."""
        return self.list_facts(was_right=False, is_right=True)

    def count_known(self, replies: Mapping[str, str]) -> Share:
        """Return how many of the questions a model answers rightly."""
        return Share(sum(is_right_reply(fact, replies[fact.id]) for fact in self.facts), len(self.facts))

    def choose_topic(self, topic: str) -> Comparison:
        """Return the comparison over one topic."""
        return Comparison(tuple(fact for fact in self.facts if fact.topic == topic), self.before, self.after)


def load_facts(path: Path | None = None) -> list[Fact]:
    """Return the questions of a YAML file, by default those of the package.

    Raises ``NotFound`` for a missing file, ``CorruptData`` for a broken one or an id that stands twice.
    """
    path = path or Path(str(resources.files("fathom.operations.evaluation") / "probe" / "knowledge.yaml"))
    facts = read_rows(path, Fact)
    ids = [fact.id for fact in facts]
    if twice := {ident for ident in ids if ids.count(ident) > 1}:
        raise CorruptData(str(path), f"id {min(twice)!r} stands twice")
    if not facts:
        raise CorruptData(str(path), "has no question")
    return facts


def is_right_reply(fact: Fact, reply: str) -> bool:
    """Return True when a reply holds an accepted answer as whole words, whatever else it says."""
    given = tokens(reply)
    for accepted in fact.accepted:
        wanted = tokens(accepted)
        # Words in a row and not characters: "Au" is no part of "because".
        if any(given[start : start + len(wanted)] == wanted for start in range(len(given) - len(wanted) + 1)):
            return True
    return False


def find_mcnemar_p(lost: int, gained: int) -> float:
    """Return the exact two-sided p of McNemar's test (1947): whether as many were lost as gained but for chance."""
    count = lost + gained
    tail: float = sum(math.comb(count, k) for k in range(max(lost, gained), count + 1)) / 2**count
    return min(1.0, 2 * tail)


def describe_comparison(names: Sequence[str], found: Comparison) -> str:
    """Return what was known before and after, lost and gained, and the test, a line each; then the topics."""
    before, after = found.count_known(found.before), found.count_known(found.after)
    lost, gained = (
        Share(len(found.list_lost()), before.count),
        Share(len(found.list_gained()), before.of - before.count),
    )
    lines = [
        f"right before ({names[0]}): {before.describe()}",
        f"right after ({names[1]}): {after.describe()}",
        f"known before, wrong after: {lost.describe()}",
        f"wrong before, right after: {gained.describe()}",
        f"McNemar's exact test: p = {find_mcnemar_p(lost.count, gained.count):.3g}",
        "",
        f"{'topic':<14}{'n':>4}{'before':>8}{'after':>8}{'lost':>6}{'gained':>8}",
    ]
    for topic in dict.fromkeys(fact.topic for fact in found.facts):
        part = found.choose_topic(topic)
        counts = (part.count_known(part.before).count, part.count_known(part.after).count)
        lines.append(
            f"{topic:<14}{len(part.facts):>4}{counts[0]:>8}{counts[1]:>8}{len(part.list_lost()):>6}{len(part.list_gained()):>8}"
        )
    return "\n".join(lines)

"""Exact-cell accuracy of datafetch on the gold questions asked otherwise, kind by kind, next to the same ones as written.

``python -m tests.bench.datafetch.datafetch_perturbed [seed]`` runs it alone. Needs the bundled tables (``make data``).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.datafetch.datafetch_gold import TABLES, ask, grade_questions, service
from tests.bench.datafetch.datafetch_scoring import Verdict
from tests.bench.datafetch.perturbation import Kind, Variant, of_gold, perturb
from tests.bench.datafetch.perturbation.variants import compound
from tests.golden.datafetch.oracle import Oracle
from tests.golden.datafetch.schema import NameFile, Question, load_names, load_questions

SEED = 20_260


@dataclass(frozen=True)
class Pair:
    """A question as written and asked otherwise; the expected cells are the same."""

    clean: Question
    changed: Question


async def run(seed: int = SEED) -> None:
    """Prints accuracy per kind of change and its ratio to that of the same questions as written."""
    questions, names = load_questions(), load_names()
    groups: dict[str, list[Pair]] = {kind: pairs(questions, names, kind, seed) for kind in Kind}
    groups["several"] = pairs(questions, names, None, seed)
    print(f"seed {seed}\n{'change':<12}{'n':>5}{'as written':>12}{'changed':>9}{'ratio':>7}")
    broken: list[tuple[str, Verdict]] = []
    async with service(TABLES) as (servicer, store):
        oracle = Oracle(TABLES)
        spellings = [entity.folded_names for entity in names.entities]

        async def asking(question: Question) -> list[Verdict]:
            return (await grade_questions(lambda q: ask(servicer, store, q), [question], oracle, spellings))[0]

        clean = {question.id: (await asking(question))[0].right for question in questions}
        for name, group in groups.items():
            verdicts = [(await asking(pair.changed))[0] for pair in group]
            right = sum(verdict.right for verdict in verdicts) / max(len(group), 1)
            before = sum(clean[pair.clean.id] for pair in group) / max(len(group), 1)
            print(f"{name:<12}{len(group):>5}{before:>12.1%}{right:>9.1%}{right / max(before, 1e-9):>7.2f}")
            broken += [
                (name, v) for pair, v in zip(group, verdicts, strict=True) if clean[pair.clean.id] and not v.right
            ]
        oracle.close()
    print(f"right as written and wrong when changed ({len(broken)}):")
    for name, verdict in broken:
        print(f"  {verdict.question.id} {name}: {verdict.question.ask}\n    {'; '.join(verdict.faults)[:200]}")


def pairs(questions: Sequence[Question], names: NameFile, kind: Kind | None, seed: int) -> list[Pair]:
    """The questions that a kind of change applies to; None is several kinds at once."""
    found = []
    for question in questions:
        asked = of_gold(question, names)
        variant: Variant | None = compound(asked, seed) if kind is None else perturb(asked, kind, seed)
        if variant is not None:
            changed = question.model_copy(update={"ask": variant.text, "as_of": variant.as_of})
            found.append(Pair(question, changed))
    return found


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else SEED))

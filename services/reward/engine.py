"""Grading of batches: all items are validated first, then graded in parallel; failures score 0 and are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.errors import InvalidField
from fathom.grading.checking import checked_item, complete
from fathom.grading.graders import GRADERS, Grader, Score
from fathom.grading.pool import Pool
from services.reward.composing import Composite
from services.reward.metrics import Metrics
from services.reward.running import RUNNING, Runner
from services.reward.work import Work


@dataclass(frozen=True)
class Plan:
    """Parts to grade for one item, by name (a single unnamed one for a plain grader), with all their parameters."""

    parts: Mapping[str, Work]
    composite: Composite | None = None
    parameters: Mapping[str, float] | None = None


class Engine:
    """Scores items with the graders and ``composites``, by name."""

    def __init__(
        self,
        composites: Mapping[str, Composite],
        pool: Pool,
        runner: Runner,
        metrics: Metrics,
        log: Any,
        max_items: int,
    ) -> None:
        self._composites, self._pool, self._runner = composites, pool, runner
        self._metrics, self._log, self._max_items = metrics, log, max_items

    @property
    def names(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """Description and parameters of everything that a request may name."""
        plain = {name: (one.description, sorted(one.parameters)) for name, one in {**GRADERS, **RUNNING}.items()}
        return plain | {name: (one.description, sorted(one.parameters)) for name, one in self._composites.items()}

    async def score(self, works: Sequence[Work]) -> list[Score]:
        """Return scores aligned with the items; raise ``InvalidField`` naming the item's field before any is graded.

        A grader that fails, exceeds its time, or returns a non-finite number scores 0, and is counted and logged.
        """
        if not 1 <= len(works) <= self._max_items:
            raise InvalidField("items", f"must be 1 to {self._max_items:,}")
        plans = [self._plan(f"items[{index}]", work) for index, work in enumerate(works)]
        atoms = [part for plan in plans for part in plan.parts.values()]
        pure = [(atom.grader, atom.item) for atom in atoms if atom.grader in GRADERS]
        graded, ran = await asyncio.gather(
            self._pool.grade(pure),
            asyncio.gather(*(self._runner.grade(atom) for atom in atoms if atom.grader in RUNNING)),
        )
        first, second = iter(graded), iter(ran)
        found = [self._kept(atom, next(first if atom.grader in GRADERS else second)) for atom in atoms]
        told = iter(found)
        scores = [folded(plan, [next(told) for _ in plan.parts]) for plan in plans]
        for work, score in zip(works, scores, strict=True):
            self._metrics.graded(work.grader, score.value)
        return scores

    def _kept(self, atom: Work, found: Score | str) -> Score:
        """Return the score; a failure becomes 0 with its reason."""
        if isinstance(found, Score):
            return found
        self._metrics.failures.labels(atom.grader).inc()
        self._log.warning("a grader failed", grader=atom.grader, reason=found)
        return Score(0.0, {"failed": 1.0}, f"failed: {found}")

    def _plan(self, path: str, work: Work) -> Plan:
        composite = self._composites.get(work.grader)
        if composite is None:
            return Plan({"": checked(path, work, {**GRADERS, **RUNNING}, self._composites)})
        parameters = complete(f"{path}.parameters", work.grader, composite.parameters, work.item.parameters)
        parts = {}
        for name, part in composite.parts.items():
            own = replace(work, grader=part.grader, item=replace(work.item, parameters=part.parameters))
            try:
                parts[name] = checked(path, own, {**GRADERS, **RUNNING}, {})
            except InvalidField:
                if not part.optional:
                    raise
        return Plan(parts, composite, parameters)


def folded(plan: Plan, scores: Sequence[Score]) -> Score:
    """Combine the parts' scores into one."""
    if plan.composite is None or plan.parameters is None:
        return scores[0]
    return plan.composite.fold(dict(zip(plan.parts, scores, strict=True)), plan.parameters)


def checked(path: str, work: Work, graders: Mapping[str, Grader], others: Mapping[str, object]) -> Work:
    """Return the work with all parameters; raise ``InvalidField`` below ``path``."""
    return replace(work, item=checked_item(path, work.grader, work.item, graders, others))

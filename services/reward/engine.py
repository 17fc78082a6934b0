"""Grading of batches: all items are validated first, then graded in parallel; failures score 0 and are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.grading.checking import checked_item, complete
from fathom.domain.grading.graders import GRADERS, Grader, Score
from fathom.domain.grading.pool import Pool
from fathom.services.reward.code_grader import CODE_GRADERS, CodeGrader
from fathom.services.reward.composite import Composite
from fathom.services.reward.metrics import Metrics
from fathom.services.reward.request import GradingRequest


@dataclass(frozen=True)
class GradingPlan:
    """Parts to grade for one item, by name (a single unnamed one for a plain grader), with all their parameters."""

    parts: Mapping[str, GradingRequest]
    composite: Composite | None = None
    parameters: Mapping[str, float] | None = None


class Engine:
    """Scores items with the graders and ``composites``, by name."""

    def __init__(
        self,
        composites: Mapping[str, Composite],
        pool: Pool,
        code_grader: CodeGrader,
        metrics: Metrics,
        log: Any,
        max_items: int,
    ) -> None:
        self._composites, self._pool, self._code_grader = composites, pool, code_grader
        self._metrics, self._log, self._max_items = metrics, log, max_items

    @property
    def names(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """Return description and parameters of everything that a request may name."""
        plain = {name: (one.description, sorted(one.parameters)) for name, one in {**GRADERS, **CODE_GRADERS}.items()}
        return plain | {name: (one.description, sorted(one.parameters)) for name, one in self._composites.items()}

    async def score(self, requests: Sequence[GradingRequest]) -> list[Score]:
        """Return scores aligned with the items; raise ``InvalidField`` naming the item's field before any is graded.

        A grader that fails, exceeds its time, or returns a non-finite number scores 0, and is counted and logged.
        """
        if not 1 <= len(requests) <= self._max_items:
            raise InvalidField("items", f"must be 1 to {self._max_items:,}")
        # All are checked before any is graded: a batch is graded whole or not at all.
        plans = [self._plan(f"items[{index}]", request) for index, request in enumerate(requests)]
        atoms = [part for plan in plans for part in plan.parts.values()]
        pure = [(atom.grader, atom.item) for atom in atoms if atom.grader in GRADERS]
        graded, ran = await asyncio.gather(
            self._pool.grade(pure),
            asyncio.gather(*(self._code_grader.grade(atom) for atom in atoms if atom.grader in CODE_GRADERS)),
        )
        # Both lists keep the order of ``atoms``, so each atom takes the next of its kind.
        first, second = iter(graded), iter(ran)
        found = [self._handle_failure(atom, next(first if atom.grader in GRADERS else second)) for atom in atoms]
        part_scores = iter(found)
        scores = [combine_scores(plan, list(islice(part_scores, len(plan.parts)))) for plan in plans]
        for request, score in zip(requests, scores, strict=True):
            self._metrics.record(request.grader, score.value)
        return scores

    def _handle_failure(self, atom: GradingRequest, found: Score | str) -> Score:
        """Return the score; a failure becomes 0 with its reason."""
        if isinstance(found, Score):
            return found
        self._metrics.failures.labels(atom.grader).inc()
        self._log.warning("a grader failed", grader=atom.grader, reason=found)
        return Score(0.0, {"failed": 1.0}, f"failed: {found}")

    def _plan(self, path: str, request: GradingRequest) -> GradingPlan:
        composite = self._composites.get(request.grader)
        if composite is None:
            return GradingPlan({"": validate_request(path, request, {**GRADERS, **CODE_GRADERS}, self._composites)})
        parameters = complete(f"{path}.parameters", request.grader, composite.parameters, request.item.parameters)
        parts = {}
        for name, part in composite.parts.items():
            own = replace(request, grader=part.grader, item=replace(request.item, parameters=part.parameters))
            try:
                parts[name] = validate_request(path, own, {**GRADERS, **CODE_GRADERS}, {})
            # An optional part is left out when the item lacks what its grader needs.
            except InvalidField:
                if not part.optional:
                    raise
        return GradingPlan(parts, composite, parameters)


def combine_scores(plan: GradingPlan, scores: Sequence[Score]) -> Score:
    """Combine the parts' scores into one."""
    if plan.composite is None or plan.parameters is None:
        return scores[0]
    return plan.composite.fold(dict(zip(plan.parts, scores, strict=True)), plan.parameters)


def validate_request(
    path: str, request: GradingRequest, graders: Mapping[str, Grader], others: Mapping[str, object]
) -> GradingRequest:
    """Return the request with all parameters; raise ``InvalidField`` below ``path``."""
    return replace(request, item=checked_item(path, request.grader, request.item, graders, others))

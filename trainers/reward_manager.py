"""``PrimeRewardManager``: verifies responses in parallel, each under a time limit.

Any grader of ``fathom.domain.grading`` can be the verifier: ``extra_info.grader`` of a row selects one, otherwise the
manager's default is used. A response scores 0, and is reported, when verification times out, fails or is impossible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.grading.checking import checked_item
from fathom.domain.grading.graders import GRADERS, Item, Score
from fathom.domain.grading.pool import Grading, Pool
from fathom.domain.grading.tags import last_answer
from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.masked import at_last

# The public recipe's limit for verifying one response.
TIMEOUT_S = 300.0


class PrimeRewardManager:
    """Reward function that puts the verifier's value on the last sampled token of each row, 0 elsewhere.

    ``workers`` processes verify, with at most ``timeout_s`` seconds per row; ``show`` receives one line for each
    failure and for each of the first ``num_examine`` rows.
    """

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int = 0,
        *,
        grader: str = "em",
        parameters: Mapping[str, float] | None = None,
        workers: int = 2,
        timeout_s: float = TIMEOUT_S,
        show: Callable[[str], None] = print,
    ) -> None:
        """Configure the manager; raises ``InvalidField`` for an unknown grader."""
        if grader not in GRADERS:
            raise InvalidField("reward.grader", f"{grader!r} is not one of {', '.join(GRADERS)}")
        self.tokenizer, self.grader, self.parameters = tokenizer, grader, dict(parameters or {})
        self.workers, self.timeout_s, self.show = workers, timeout_s, show
        self._to_examine = num_examine

    def __call__(self, data: DataProto) -> Tensor:
        """Return rewards [B, T] float32.

        Reads ``responses``, ``response_mask``, ``reward_model`` and, when present, ``extra_info``.
        """
        return at_last(torch.tensor(self.verify(data), dtype=torch.float32), data.tensor("response_mask"))

    def verify(self, data: DataProto) -> list[float]:
        """Return the outcome of each row.

        Raises ``InvalidField`` naming a row whose grader or references are invalid.
        """
        # All rows before the first process starts: a wrong row is an error of the data and not worth 0.
        gradings = [self._grading(data, row) for row in range(len(data))]
        # A thread of its own: whoever trains may have a loop running in this one.
        with ThreadPoolExecutor(1) as thread:
            try:
                found = thread.submit(asyncio.run, self._grade_all(gradings)).result()
            except OSError as error:  # no process could be started: all are worth 0, as with one that fails
                found = [f"no verifier: {error}"] * len(gradings)
        for row, (score, (name, item)) in enumerate(zip(found, gradings, strict=True)):
            if isinstance(score, str):
                self.show(f"row {row}: the verifier {name} failed, worth 0: {score}")
            elif self._to_examine > 0:
                self._to_examine -= 1
                self.show(f"[{name}] {score.value:g} for {list(item.references)}: {item.answer}")
        return [score.value if isinstance(score, Score) else 0.0 for score in found]

    async def _grade_all(self, gradings: Sequence[Grading]) -> list[Score | str]:
        pool = Pool(self.workers, self.timeout_s)
        try:
            return await pool.grade(gradings)
        finally:
            await pool.close()

    def _grading(self, data: DataProto, row: int) -> Grading:
        """Return a row's grader and the item to grade.

        The item's answer is the content of the last answer tag, or the whole response when there is none.
        """
        extra = data.array("extra_info")[row] if "extra_info" in data.non_tensor_batch else None
        name = (extra or {}).get("grader") or self.grader
        given = (extra or {}).get("grader_parameters")
        target = data.array("reward_model")[row]["ground_truth"]["target"]
        references = [target] if isinstance(target, str) else [str(one) for one in target]
        kept = data.tensor("response_mask")[row].bool()
        text = str(self.tokenizer.decode(data.tensor("responses")[row][kept].tolist(), skip_special_tokens=True))
        answer = last_answer(text)
        item = Item(text if answer is None else answer, references, self._parameters(name, given), text)
        return name, checked_item(f"rows[{row}]", name, item, GRADERS)

    def _parameters(self, name: str, given: Any) -> dict[str, float]:
        """Return the grader parameters of a row, else the manager's when the row uses the manager's grader.

        ``given`` is a mapping, or a list of name and value as parquet stores it.
        """
        if given:
            pairs = given.items() if isinstance(given, Mapping) else ((one["name"], one["value"]) for one in given)
            return {str(key): float(value) for key, value in pairs}
        return self.parameters if name == self.grader else {}

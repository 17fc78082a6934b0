"""``PrimeRewardManager``: verifies responses side by side, each within its time (rows PR31, J03).

Any grader of ``fathom.grading`` can be the verifier: a row says which in ``extra_info.grader``, else it is the
manager's. A response that is late, breaks its verifier or cannot be graded is worth 0, and is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from fathom.errors import InvalidField
from fathom.grading.checking import checked_item
from fathom.grading.graders import GRADERS, Item, Score
from fathom.grading.pool import Grading, Pool
from fathom.grading.tags import last_answer
from trainers.data_proto import DataProto
from trainers.masked import at_last

TIMEOUT_S = 300.0


class PrimeRewardManager:
    """A reward function: the verifier's value at the last token that the model wrote, 0 elsewhere.

    ``workers`` processes verify, ``timeout_s`` seconds for each row at most; ``show`` takes a line for each failure
    and for the first ``num_examine`` rows.
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
        """Raises ``InvalidField`` for an unknown grader."""
        if grader not in GRADERS:
            raise InvalidField("reward.grader", f"{grader!r} is not one of {', '.join(GRADERS)}")
        self.tokenizer, self.grader, self.parameters = tokenizer, grader, dict(parameters or {})
        self.workers, self.timeout_s, self.show = workers, timeout_s, show
        self._to_examine = num_examine

    def __call__(self, data: DataProto) -> Tensor:
        """[B, T] float32; reads ``responses``, ``response_mask``, ``reward_model`` and, where there is one,
        ``extra_info``.
        """
        return at_last(torch.tensor(self.verify(data), dtype=torch.float32), data.tensor("response_mask"))

    def verify(self, data: DataProto) -> list[float]:
        """The outcome of each row. Raises ``InvalidField`` that names a row whose grader or references cannot be."""
        gradings = [self._grading(data, row) for row in range(len(data))]
        # A thread of its own: whoever trains may have a loop running in this one.
        with ThreadPoolExecutor(1) as thread:
            try:
                found = thread.submit(asyncio.run, self._verified(gradings)).result()
            except OSError as error:  # no process could be started: all are worth 0, as with one that fails
                found = [f"no verifier: {error}"] * len(gradings)
        for row, (score, (name, item)) in enumerate(zip(found, gradings, strict=True)):
            if isinstance(score, str):
                self.show(f"row {row}: the verifier {name} failed, worth 0: {score}")
            elif self._to_examine > 0:
                self._to_examine -= 1
                self.show(f"[{name}] {score.value:g} for {list(item.references)}: {item.answer}")
        return [score.value if isinstance(score, Score) else 0.0 for score in found]

    async def _verified(self, gradings: Sequence[Grading]) -> list[Score | str]:
        pool = Pool(self.workers, self.timeout_s)
        try:
            return await pool.grade(gradings)
        finally:
            await pool.close()

    def _grading(self, data: DataProto, row: int) -> Grading:
        """A row's grader, and what it grades: the answer tag's content where the model wrote one, else all it wrote."""
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
        """Those of the row (a mapping, or parquet's list of name and value), else the manager's for its own grader."""
        if given:
            pairs = given.items() if isinstance(given, Mapping) else ((one["name"], one["value"]) for one in given)
            return {str(key): float(value) for key, value in pairs}
        return self.parameters if name == self.grader else {}

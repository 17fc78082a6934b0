"""Search-R1's reward: exact match of the last answer, placed on the last sampled token.

The original matches answers in prompt and response together and discounts a single match as the instruction's example;
but its own instruction contains two, so that a response without an answer scores as if it had answered "Beijing". Here
only the response is read, and of it only sampled tokens. ``parity_answer_extraction`` restores the original behaviour
for comparison.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.grading.graders import GRADERS, SPAM_DIVISOR, Item
from fathom.domain.grading.tags import is_spam, last_answer
from fathom.trainers.batch import DataProto
from fathom.trainers.objectives.masked import last_cells

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
# Where a response begins in a text that holds its prompt too: after the chat template's assistant mark, else behind
# the question of the instruction.
ASSISTANT = re.compile(
    r"<\|im_start\|>\s*assistant|<\|start\|>\s*assistant|<\|start_header_id\|>assistant|\bAssistant:"
)
INSTRUCTED = re.compile(r"<answer>[^<]*</answer>.*?Question:[^\n]*(?:\n|\Z)", re.DOTALL)
METHODS: Mapping[str, tuple[str, ...]] = {
    "strict": ("em",),
    "sub_em": ("sub_em",),
    "number": ("number",),
    "tolerant": ("em", "number"),
}
"""Graders of ``fathom.domain.grading`` per method; one match suffices. All fold full-width and Chinese punctuation."""


def response_of(solution_str: str) -> str:
    """Return the response part of a text of prompt and response; a text without either mark is all response."""
    mark = ASSISTANT.search(solution_str) or INSTRUCTED.search(solution_str)
    return solution_str[mark.end() :] if mark else solution_str


def extract_solution(solution_str: str, *, parity_answer_extraction: bool = False) -> str | None:
    """Return the response's last answer, stripped, or None; the instruction's example answers are ignored.

    With ``parity_answer_extraction``: the last of all matches when there are at least two, as in the original.
    """
    if parity_answer_extraction:
        found = ANSWER.findall(solution_str)
        return found[-1].strip() if len(found) > 1 else None
    return last_answer(response_of(solution_str))


def em_check(prediction: str, golden_answers: str | Sequence[str], method: str = "strict") -> bool:
    """Return whether any grader of ``METHODS[method]`` accepts the prediction for one of the answers.

    Raises ``InvalidField("method")`` for an unknown method.
    """
    if method not in METHODS:
        raise InvalidField("method", f"{method!r} is not one of {', '.join(METHODS)}")
    references = [golden_answers] if isinstance(golden_answers, str) else [str(item) for item in golden_answers]
    return any(is_fully_scored(name, prediction, references) for name in METHODS[method])


def is_fully_scored(name: str, prediction: str, references: Sequence[str]) -> bool:
    """Return whether the grader gives full score at its default parameters."""
    grader = GRADERS[name]
    defaults = {key: parameter.default for key, parameter in grader.parameters.items()}
    return grader.grade(Item(prediction, references, defaults, prediction)).value >= 1.0


def compute_score_em(
    solution_str: str,
    ground_truth: Mapping[str, Any],
    method: str = "strict",
    format_score: float = 0.0,
    score: float = 1.0,
    *,
    parity_answer_extraction: bool = False,
) -> float:
    """Return 0 without an answer, ``score`` when it matches ``ground_truth["target"]``, else ``format_score``.

    Raises ``InvalidField`` for a ground truth without target.
    """
    if "target" not in ground_truth:
        raise InvalidField("ground_truth.target", f"is missing; there are {sorted(ground_truth)}")
    answer = extract_solution(solution_str, parity_answer_extraction=parity_answer_extraction)
    if answer is None:
        return 0.0
    if not em_check(answer, ground_truth["target"], method):
        return format_score
    # verl's guard: more than ten answer tags divide a matching score by four, since a guess in every tag is not an
    # answer. The original has no such guard, nor has parity mode.
    guarded = not parity_answer_extraction and is_spam(response_of(solution_str))
    return score / SPAM_DIVISOR if guarded else score


class RewardManager:
    """Reward function for a batch; prints at most ``num_examine`` samples per data source over its lifetime."""

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int,
        format_score: float = 0.0,
        *,
        method: str = "strict",
        parity_answer_extraction: bool = False,
        show: Callable[[str], None] = print,
    ) -> None:
        """Configure the manager; raises ``InvalidField`` for an unknown method or a ``format_score`` outside [0, 1]."""
        if method not in METHODS:
            raise InvalidField("method", f"{method!r} is not one of {', '.join(METHODS)}")
        if not 0.0 <= format_score <= 1.0:
            raise InvalidField("format_score", f"{format_score} is not within 0 and 1")
        self.tokenizer, self.num_examine, self.format_score = tokenizer, num_examine, format_score
        self.method, self.parity, self.show = method, parity_answer_extraction, show
        self.examined: Counter[str] = Counter()

    def __call__(self, data: DataProto) -> Tensor:
        """Return rewards [B, T] float32: the score on the last sampled token, 0 elsewhere.

        Existing ``rm_scores`` are returned unchanged. Reads ``prompts``, ``responses``, ``attention_mask``,
        ``reward_model`` with its ``ground_truth``, and ``data_source``. Without a ``response_mask``, and always in
        parity mode, the response part of the attention mask is used instead: then an answer inside an observation
        counts, and the score may be placed on an observation token.
        """
        if "rm_scores" in data:
            return data.tensor("rm_scores")
        responses, attention = data.tensor("responses"), data.tensor("attention_mask")
        valid = attention[:, -responses.shape[1] :]
        # Sampled tokens only: a passage that quotes an answer in tags must not be rewarded as the model's.
        mask = valid if self.parity or "response_mask" not in data else data.tensor("response_mask")
        scores = torch.zeros(responses.shape, dtype=torch.float32)
        sources = data.array("data_source")
        for row, (column, rule) in enumerate(zip(last_cells(mask).tolist(), data.array("reward_model"), strict=True)):
            text = self.text(data, row, mask)
            score = compute_score_em(
                text, rule["ground_truth"], self.method, self.format_score, parity_answer_extraction=self.parity
            )
            scores[row, column] = score
            self.examine(str(sources[row]), text, rule["ground_truth"], score)
        return scores

    def text(self, data: DataProto, row: int, mask: Tensor) -> str:
        """Decode the text to grade: the sampled tokens, or in parity mode all of prompt and response."""
        ids = data.tensor("responses")[row][mask[row].bool()].tolist()
        if self.parity:
            prompts = data.tensor("prompts")[row]
            ids = prompts[data.tensor("attention_mask")[row, : len(prompts)].bool()].tolist() + ids
        # Chat template marks are not the model's words, so special tokens are left out.
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def examine(self, source: str, text: str, ground_truth: Mapping[str, Any], score: float) -> None:
        """Print a sample while its data source has not reached ``num_examine``."""
        if self.examined[source] < self.num_examine:
            self.examined[source] += 1
            self.show(f"[{source}] score {score:g} for {list(ground_truth['target'])}\n{text}")

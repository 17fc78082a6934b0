"""PRIME's verifiers: any grader by row, placement, failures worth 0, rows that cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from fathom.core.errors import InvalidField
from fathom.trainers import reward_manager
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig, load_config
from fathom.trainers.jobs.assembly import build_reward_function
from fathom.trainers.learners.tiny import build_tokenizer
from fathom.trainers.reward_manager import PrimeRewardManager
from fathom.trainers.search_r1 import RewardManager

WORDS = ["<answer>", "</answer>", "7", "8", "0.5", "1/2", "seven", "nothing", "about"]
TOKENIZER = build_tokenizer(WORDS)


def batch(responses: list[str], targets: list[Any], extra: list[Any] | None = None, observed: int = 0) -> DataProto:
    """Rows of words; the last ``observed`` tokens of each are an observation."""
    ids = [TOKENIZER.encode(text, add_special_tokens=False) for text in responses]
    width = max(map(len, ids))
    tensors = {
        "responses": torch.tensor([one + [0] * (width - len(one)) for one in ids]),
        "response_mask": torch.tensor(
            [[1] * (len(one) - observed) + [0] * (width - len(one) + observed) for one in ids]
        ),
    }
    columns: dict[str, Any] = {"reward_model": [{"style": "rule", "ground_truth": {"target": one}} for one in targets]}
    if extra is not None:
        columns["extra_info"] = extra
    arrays = {}
    for name, values in columns.items():
        arrays[name] = np.empty(len(values), dtype=object)
        arrays[name][:] = values
    return DataProto(tensors, arrays, {})


# One process to grade in: starting more costs longer than the grading.
def manager(**settings: Any) -> PrimeRewardManager:
    return PrimeRewardManager(TOKENIZER, **{"workers": 1, "timeout_s": 20.0, "show": lambda line: None, **settings})


def test_outcomes_stand_at_the_last_token_that_the_model_wrote() -> None:
    data = batch(["about <answer> 7 </answer>", "<answer> 8 </answer>", "7"], [["7"], ["7", "seven"], "7"])
    scores = manager()(data)
    # The first is right; the second is wrong for both targets; the third has no tags, which exact match allows.
    assert scores.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert scores.dtype == torch.float32


def test_what_stands_in_an_observation_is_no_answer() -> None:
    # The last three tokens are an observation: the answer stands in what a tool returned.
    assert manager().verify(batch(["nothing <answer> 7 </answer>"], [["7"]], observed=3)) == [0.0]


def test_each_row_has_its_own_verifier() -> None:
    """Swapping the grader is a matter of the data or the settings."""
    texts, targets = ["<answer> 1/2 </answer>"] * 4, [["0.5"]] * 4
    extra = [
        {"grader": "em"},
        {"grader": "math"},
        # A tolerance of nine times the target accepts anything positive.
        {"grader": "number", "grader_parameters": [{"name": "rel_tol", "value": 9.0}]},
        {},
    ]
    data = batch(texts, targets, extra)
    # The row without a grader takes the manager's.
    assert manager(grader="math").verify(data) == [0.0, 1.0, 1.0, 1.0]
    assert manager(grader="em").verify(data) == [0.0, 1.0, 1.0, 0.0]
    assert manager(grader="number", parameters={"abs_tol": 100.0}).verify(batch(texts[:1], targets[:1])) == [1.0]


def test_failures_are_0_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Late:
        def __init__(self, workers: int, timeout_s: float) -> None: ...

        async def grade(self, items: list[Any]) -> list[Any]:
            return ["took longer than 1 s"] * len(items)

        async def close(self) -> None: ...

    class Absent(Late):
        async def grade(self, items: list[Any]) -> list[Any]:
            raise OSError("no more processes")

    data = batch(["7", "8"], [["7"], ["8"]])
    # A grader that times out, and one whose pool cannot start.
    for pool, word in ((Late, "took longer"), (Absent, "no more processes")):
        monkeypatch.setattr(reward_manager, "Pool", pool)
        assert manager(show=told.append).verify(data) == [0.0, 0.0]
        # Both rows are told, each with the reason.
        assert [word in line for line in told[-2:]] == [True, True]


async def test_it_verifies_under_a_running_loop_and_shows_some_rows() -> None:
    shown: list[str] = []
    verifier = manager(num_examine=1, show=shown.append)
    assert verifier.verify(batch(["7", "8"], [["7"], ["7"]])) == [1.0, 0.0]
    # One sample per data source, though there are two rows.
    assert shown == ["[em] 1 for ['7']: 7"]
    assert asyncio.get_running_loop().is_running()


@pytest.mark.parametrize(
    ("targets", "extra", "field"),
    [
        ([["7"], []], None, "rows[1].references"),
        ([["7"], ["7"]], [{}, {"grader": "nope"}], "rows[1].grader"),
        ([["7"], ["7"]], [{}, {"grader": "em", "grader_parameters": {"x": 1.0}}], "rows[1].parameters"),
    ],
)
def test_rows_that_cannot_be_verified_are_named(targets: list[Any], extra: list[Any] | None, field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        manager().verify(batch(["7", "8"], targets, extra))
    assert bad.value.field == field
    with pytest.raises(InvalidField, match=r"reward\.grader"):
        manager(grader="nope")


def test_the_settings_choose_the_manager() -> None:
    config = TrainConfig()
    assert build_reward_function(config, TOKENIZER) is None
    chosen = config.model_copy(
        update={"reward": config.reward.model_copy(update={"manager": "prime", "grader": "math"})}
    )
    made = build_reward_function(chosen, TOKENIZER)
    assert isinstance(made, PrimeRewardManager)
    assert (made.grader, made.timeout_s) == ("math", config.reward.timeout_s)


@pytest.mark.parametrize("parity", [False, True])
def test_search_r1s_manager_and_its_parity_switch(parity: bool) -> None:
    """With parity the prompt's own example counts as an answer, as in the original."""
    overrides = ["reward.manager=search_r1", "reward.format_score=0.1", f"reward.parity_answer_extraction={parity}"]
    made = build_reward_function(load_config([], overrides), TOKENIZER)
    assert isinstance(made, RewardManager)
    data = batch(["nothing", "<answer> 8 </answer>"], [["7"], ["7"]])
    # The example of the instruction in the prompt, then an answer that was never written by the model.
    prompt = TOKENIZER.encode("<answer> about </answer> <answer> 7 </answer>", add_special_tokens=False)
    prompts = torch.tensor([prompt] * 2)
    valid = torch.cat([torch.ones_like(prompts), data.tensor("response_mask")], dim=1)
    whole = data.with_tensors(prompts=prompts, attention_mask=valid)
    found = made(DataProto(whole.batch, whole.non_tensor_batch | {"data_source": np.array(["nq"] * 2, dtype=object)}))
    # With parity the prompt's own example scores 1, which is the original's defect.
    assert found.sum(dim=1).tolist() == pytest.approx([1.0, 0.1] if parity else [0.0, 0.1])

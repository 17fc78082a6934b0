"""A language model in this process as Search-R1's rollout worker: exact log-probabilities, seeds, and a training on it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.data.comparison import records
from fathom.trainers.learners import tiny
from fathom.trainers.learners.forward import response_tokens
from fathom.trainers.search_r1 import RewardManager
from fathom.trainers.search_r1.rollouts import SearchR1Rollouts
from fathom.trainers.search_r1.sampler import ModelSampler, sample_ids
from fathom.trainers.store_files import StoredFiles, StoreFolder
from tests.support.training.lookups import lookups, vocabulary
from tests.unit.trainers.search_r1.scripts import settings

WORDS = vocabulary()
TOKENIZER = tiny.build_tokenizer(WORDS)


def prompts(count: int = 3, **meta: Any) -> DataProto:
    rows = records([fact.task for fact in lookups()[:count]], "train")
    arrays = {name: [row[name] for row in rows] for name in rows[0]} | {"uid": [str(n) for n in range(count)]}
    values = {"n": 2, "step": 1, "seed": 5, "validate": False, "temperature": 0.8, "top_p": 1.0}
    return DataProto.from_dict({}, arrays, values | meta)


def source(seed: int = 3, **changes: Any) -> SearchR1Rollouts:
    torch.set_num_threads(1)
    model = tiny.build_model(WORDS, 32, 2, seed, 256)
    changed = {"max_response_length": 6, "max_obs_length": 24, "max_turns": 2} | changes
    found = SearchR1Rollouts(ModelSampler(model, TOKENIZER), TOKENIZER, settings(**changed))
    return found


def test_episodes_fit_the_trainer_and_their_log_probabilities_are_the_learners() -> None:
    """Sampled with a key-value cache turn by turn, scored in one pass: the same, for every sampled token."""
    rollouts = source()
    found = rollouts.generate(prompts())
    found.require("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
    found.require_groups(2)
    mask = found.tensor("response_mask").bool()
    scored = response_tokens(rollouts.sampler.model, found, 0.8).log_probs
    assert torch.allclose(scored[mask], found.tensor("rollout_log_probs")[mask], atol=1e-5)
    assert not found.tensor("rollout_log_probs")[~mask].any()
    assert bool((~mask & found.tensor("attention_mask")[:, -mask.shape[1] :].bool()).any()), "there are observations"
    assert found.meta_info["metrics"]["env/number_of_actions/mean"] >= 1
    assert RewardManager(TOKENIZER, 0)(found).shape == mask.shape


def test_seeds_decide_and_greedy_needs_none() -> None:
    first, same, other = (source().generate(prompts(seed=seed)).tensor("responses").tolist() for seed in (5, 5, 6))
    assert first == same != other
    greedy = [source().generate(prompts(temperature=0.0, seed=seed)).tensor("responses") for seed in (1, 2)]
    assert torch.equal(*greedy)
    assert torch.equal(greedy[0][0], greedy[0][1]), "samples of a greedy group are one"


def test_the_nucleus_keeps_the_likely_ones() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(400, 1)
    generator = torch.Generator().manual_seed(1)
    assert set(sample_ids(log_probs, 0.7, generator).tolist()) == {0, 1}
    assert set(sample_ids(log_probs, 1.0, generator).tolist()) == {0, 1, 2, 3}


def test_new_weights_are_taken_and_nothing_is_submitted_ahead() -> None:
    rollouts, other = source(), tiny.build_model(WORDS, 32, 2, 99, 256)
    before = rollouts.generate(prompts(temperature=0.0)).tensor("responses")

    def write(target: StoreFolder) -> StoredFiles:
        with TemporaryDirectory() as name:
            tiny.save(other, TOKENIZER, Path(name))
            return target.upload(Path(name))

    assert rollouts.publish(write) == 1
    after = rollouts.generate(prompts(temperature=0.0)).tensor("responses")
    assert before.shape != after.shape or not torch.equal(before, after)
    with pytest.raises(InvalidField, match="ahead"):
        rollouts.submit(prompts())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("as_of", "2014-03-31T16:00:00+00:00"),
        ("history", [{"role": "user", "content": "what?"}]),
        ("conversation_id", "conv_1"),
    ],
)
def test_columns_that_this_loop_would_ignore_are_refused(name: str, value: Any) -> None:
    asked = prompts()
    asked.array("extra_info")[1] = {**asked.array("extra_info")[1], name: value}
    with pytest.raises(InvalidField, match=f"extra_info.{name}: row 1: is read with rollout.source planner"):
        source().generate(asked)

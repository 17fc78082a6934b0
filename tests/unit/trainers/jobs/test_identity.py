"""A checkpoint belongs to a training with its settings; another training of the same name is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import FailedPrecondition
from fathom.trainers.config import load_config
from fathom.trainers.jobs.identity import OPERATIONAL, claim_for, describe_training, flatten
from fathom.trainers.jobs.ray_job import WRONG, exit_status
from fathom.transport.store import open_store


async def test_another_seed_rate_and_folder_is_another_training(tmp_path: Path) -> None:
    """As it was found: /a/run had trained, and /b/run said that it had ended after 0 steps."""
    store = open_store("memory://")
    first = await claim_for(store, "grpo", load_config([], ["trainer.output=/a/run"]))
    assert await claim_for(store, "grpo", load_config([], ["trainer.output=/elsewhere/run"])) == first, "a pod's retry"
    changed = ["trainer.output=/b/run", "data.seed=99", "actor.optim.lr=5e-5", "trainer.seed=123"]
    with pytest.raises(FailedPrecondition) as told:
        await claim_for(store, "grpo", load_config([], changed))
    for difference in ("actor.optim.lr was 1e-06, is 5e-05", "data.seed was 7, is 99", "trainer.seed was 7, is 123"):
        assert difference in told.value.message
    assert told.value.metadata["field"] == "trainer.output"
    assert exit_status(told.value) == WRONG, "the job is not tried again"
    with pytest.raises(FailedPrecondition, match="algorithm was 'grpo', is 'rloo'"):
        await claim_for(store, "rloo", load_config([], ["trainer.output=/b/run"]))


@pytest.mark.parametrize("override", ["trainer.resume_changed=true", "trainer.resume_mode=disable"])
async def test_who_wants_it_goes_on_or_begins_anew(override: str) -> None:
    store = open_store("memory://")
    await claim_for(store, "grpo", load_config([], ["trainer.output=run"]))
    changed = ["trainer.output=run", "actor.optim.lr=0.1"]
    other = await claim_for(store, "grpo", load_config([], [*changed, override]))
    assert await claim_for(store, "grpo", load_config([], changed)) == other, "from then on it is this training"


async def test_length_place_and_pace_may_change() -> None:
    store = open_store("memory://")
    first = await claim_for(store, "grpo", load_config([], ["trainer.output=run"]))
    more = ["trainer.total_training_steps=9", "trainer.world_size=2", "rollout.timeout_s=5", "collapse.window=2"]
    assert await claim_for(store, "grpo", load_config([], ["trainer.output=run", *more])) == first


async def test_data_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    store = open_store("memory://")
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "train.parquet").write_bytes(b"rows")
        await claim_for(store, "grpo", load_config([], [f"data.train_files=[{tmp_path / place / 'train.parquet'}]"]))
    (tmp_path / "b" / "train.parquet").write_bytes(b"other rows")
    with pytest.raises(FailedPrecondition, match=r"data\.train_files was \['[0-9a-f]{64}'\], is"):
        await claim_for(store, "grpo", load_config([], [f"data.train_files=[{tmp_path / 'b' / 'train.parquet'}]"]))


async def test_a_record_of_an_earlier_version_lacks_new_settings_and_has_old_ones() -> None:
    store, key = open_store("memory://"), "checkpoints/run/training.json"

    async def begin(*added: str, lacking: tuple[str, ...] = (), **more: object) -> None:
        described = describe_training("grpo", load_config([], ["trainer.output=run", *added]))
        record = {name: value for name, value in described.items() if name not in lacking} | more
        await store.put(key, json.dumps(record).encode())

    new = ("actor.loss_mode", "data.refill_draws")
    await begin(lacking=new, **{"trainer.test_freq": 3})
    await claim_for(store, "grpo", load_config([], ["trainer.output=run"]))
    with pytest.raises(FailedPrecondition, match=r"data\.refill_draws was 0 by default, is 2") as told:
        await claim_for(store, "grpo", load_config([], ["trainer.output=run", "data.refill_draws=2"]))
    assert "None" not in told.value.message
    await begin(**{"actor.forgotten": 1})  # type: ignore[arg-type]
    with pytest.raises(FailedPrecondition, match=r"actor\.forgotten was 1, and there is no such setting any more"):
        await claim_for(store, "grpo", load_config([], ["trainer.output=run"]))


def test_every_operational_setting_exists() -> None:
    config = load_config()
    assert flatten(config.model_dump(mode="json", by_alias=True)).keys() >= OPERATIONAL
    described = describe_training("grpo", config)
    assert {"actor.optim.lr", "trainer.seed", "rollout.n", "model.path", "reward.grader"} <= described.keys()

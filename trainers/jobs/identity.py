"""Identity of a training: its id is the name of its output folder, and its settings' hash says what it trains.

The first start of an id writes ``checkpoints/<id>/training.json``; a start with other settings is refused with what
differs, since it would go on from a checkpoint of another training.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.core.errors import Conflict, FailedPrecondition
from fathom.core.ids import sha256
from fathom.trainers.config import TrainConfig
from fathom.transport.store import ObjectStore

# Settings that say how, how long or where a training runs, not what it learns.
OPERATIONAL = frozenset(
    {
        "actor.ppo_max_token_len_per_gpu", "actor.ppo_micro_batch_size_per_gpu", "actor.tensor_parallel_size",
        "actor.ulysses_sequence_parallel_size", "actor.use_dynamic_bsz", "actor.use_remove_padding", "brpo.timeout_s",
        "critic.ppo_max_token_len_per_gpu", "critic.ppo_micro_batch_size_per_gpu", "critic.tensor_parallel_size",
        "critic.ulysses_sequence_parallel_size", "critic.use_dynamic_bsz", "critic.use_remove_padding",
        "data.val_batch_size", "model.cache", "model.enable_gradient_checkpointing", "model.lora_publish",
        "retriever.url", "reward.num_examine", "reward.timeout_s", "reward_model.max_token_len_per_gpu",
        "reward_model.micro_batch_size_per_gpu", "reward_model.ulysses_sequence_parallel_size",
        "reward_model.use_dynamic_bsz", "rollout.attempts", "rollout.concurrency", "rollout.episodes_per_s",
        "rollout.publish_lanes", "rollout.publish_timeout_s", "rollout.record", "rollout.replay",
        "rollout.shared_memory_dir", "rollout.shared_memory_gb", "rollout.timeout_s", "rollout.transport",
        "rollout.val_temperature", "rollout.weights_transport", "trainer.collective_timeout_s",
        "trainer.colocate_roles", "trainer.cpu_offload", "trainer.device", "trainer.keep_checkpoints",
        "trainer.learner_restarts",
        "trainer.loggers", "trainer.output", "trainer.resume_changed", "trainer.resume_mode", "trainer.resume_path",
        "trainer.samples", "trainer.save_freq", "trainer.schedule_timeout_s", "trainer.strategy", "trainer.test_freq",
        "trainer.total_epochs", "trainer.total_training_steps", "trainer.use_ray", "trainer.val_before_train",
        "trainer.world_size",
    }
)  # fmt: skip
SHOWN = 6
"""Differences that an error names."""


def describe_training(algorithm: str, config: TrainConfig) -> dict[str, Any]:
    """Return what determines a training, by dotted name: the settings that are not operational, and its data's hash."""
    found = flatten(config.model_dump(mode="json", by_alias=True))
    # Collapse detection ends a training, and changes nothing in one that goes on.
    unneeded = OPERATIONAL | {name for name in found if name.startswith("collapse.")}
    kept = {name: value for name, value in found.items() if name not in unneeded}
    # Paths differ between pods, and a file may be written anew under its path.
    kept["data.train_files"] = [hash_file(path) for path in config.data.train_files]
    for name in ("val_files", "held_files"):
        kept.pop(f"data.{name}")
    for name in ("instruction_file", "invalid_action_file"):
        path = getattr(config.rollout, name)
        kept[f"rollout.{name}"] = path if path is None else hash_file(path)
    return kept | {"algorithm": algorithm}


async def claim_training(
    store: ObjectStore, training: str, described: Mapping[str, Any], *, replace: bool = False
) -> str:
    """Record a training's settings at its first start, and compare them at every later one; return their hash.

    With ``replace`` the record becomes this one, whatever it was. Raises ``FailedPrecondition`` naming what differs.
    """
    key = f"checkpoints/{training}/training.json"
    content = json.dumps(dict(described), indent=1, sort_keys=True).encode()
    if replace:
        await store.put(key, content, "application/json")
        return sha256(content)
    try:
        # Only one of two that start at once; the other compares itself with it.
        await store.create(key, content, "application/json")
    except Conflict:
        differences = list_differences(json.loads(await store.get(key)), described)
        if not differences:
            return sha256(content)
        more = f" and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise FailedPrecondition(
            f"training {training!r} was begun with other settings: {'; '.join(differences[:SHOWN])}{more}. Choose"
            " another trainer.output, go on with these settings by trainer.resume_changed=true, or start over by"
            " trainer.resume_mode=disable",
            metadata={"field": "trainer.output"},
        ) from None
    return sha256(content)


def list_differences(known: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    """Say of each setting that a training did not begin with as it is now how it was and how it is.

    A setting that an earlier version did not have counts as its default, which keeps what was done before; one that
    has become operational since counts no more.
    """
    defaults = flatten(TrainConfig().model_dump(mode="json", by_alias=True))
    found = []
    for name in sorted((known.keys() | described.keys()) - OPERATIONAL):
        if name not in described:
            found.append(f"{name} was {known[name]!r}, and there is no such setting any more")
            continue
        before, now = known.get(name, defaults.get(name)), described[name]
        if before != now:
            found.append(f"{name} was {before!r}{'' if name in known else ' by default'}, is {now!r}")
    return found


async def claim_for(store: ObjectStore, algorithm: str, config: TrainConfig) -> str:
    """Claim the training that these settings describe; see ``claim_training``."""
    trainer = config.trainer
    described = await asyncio.to_thread(describe_training, algorithm, config)
    replace = trainer.resume_changed or trainer.resume_mode == "disable"
    return await claim_training(store, trainer.output.name, described, replace=replace)


def flatten(tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by dotted name."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flatten(value, f"{path}{name}.") if isinstance(value, Mapping) and value else {f"{path}{name}": value}
    return found


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read in pieces; the path itself when there is no such file."""
    if not path.is_file():
        return str(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

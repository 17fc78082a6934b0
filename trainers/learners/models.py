"""Loading and export of a learner's model: a safetensors folder, SmolLM2 from its package, or a tiny test model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from fathom.core.errors import InvalidField
from fathom.domain.encoders.loading import LOADING
from fathom.domain.smollm2 import smollm2_folder
from fathom.trainers.config.sections import ModelConfig
from fathom.trainers.learners import tiny
from fathom.trainers.learners.lora import adapt, merge_adapters, save_adapter
from fathom.trainers.learners.ranks.fsdp import rank, whole_state

PREFIX = "language_model."
SaveWeights = Callable[[dict[str, torch.Tensor], Path], None]


def load_tokenizer(config: ModelConfig) -> Any:
    """Load the model's tokenizer; raises ``InvalidField("model.path")``."""
    if config.path == "tiny":
        return tiny.build_tokenizer(config.vocabulary)
    return AutoTokenizer.from_pretrained(folder_of(config))


def load_model(config: ModelConfig, seed: int) -> Any:
    """Load a causal language model in float32 and train mode, with adapters and checkpointing as configured.

    Raises ``InvalidField("model.path")`` for a folder without a model or an unsupported output layer, and
    ``InvalidField("model.vocabulary")`` for a tiny model without words.
    """
    if config.path == "tiny":
        if not config.vocabulary:
            raise InvalidField("model.vocabulary", "is empty; a tiny model needs its words")
        model: Any = tiny.build_model(config.vocabulary, config.hidden, config.layers, seed, config.window)
    else:
        folder = folder_of(config)
        # transformers replaces functions of its own classes while it loads; a second load at the same time could leave
        # them replaced.
        with LOADING:
            # Whatever type the file has: optimiser steps of 1e-6 vanish in bfloat16 weights, which have three digits.
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    # Before training, not at export: the learner would otherwise optimise other logits than the sampler computes.
    check_output(model)
    if config.lora_rank:
        # Adapters are initialised from the seed, so that all ranks start with the same weights.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = adapt(model, config)
    if config.enable_gradient_checkpointing:
        # transformers renames it between 5.19 and 5.23 and warns of the old name; the first argument is the same.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model.train()


def folder_of(config: ModelConfig) -> Path:
    """Return the folder that holds config, weights and tokenizer; raises ``InvalidField("model.path")``."""
    if config.path == "smollm2":
        return smollm2_folder(config.cache)
    folder = Path(config.path)
    if not (folder / "config.json").exists():
        raise InvalidField("model.path", f"{config.path!r} is no folder of a model, nor 'tiny' or 'smollm2'")
    return folder


def check_output(model: Any) -> None:
    """Check that logits are the plain product with the output layer's weight.

    Raises ``InvalidField("model.path")`` for a bias, logit scaling or soft-capping.
    """
    output, config = model.get_output_embeddings(), model.config
    more = [
        name for name in ("final_logit_softcapping", "logits_scaling", "logit_scale") if getattr(config, name, None)
    ]
    if more or getattr(output, "bias", None) is not None:
        raise InvalidField("model.path", f"logits of {type(model).__name__} need {more or 'a bias'}: not supported")


def save_weights(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Save contiguous tensors to a file."""
    save_file(tensors, path, metadata={"format": "pt"})


def export(
    network: Any,
    model: Any,
    tokenizer: Any,
    config: ModelConfig,
    folder: Path,
    *,
    with_adapter: bool = True,
    save: SaveWeights = save_weights,
) -> None:
    """Save weights, config and tokenizer for an inference engine, with adapters merged into the weights, or without.

    Call on all ranks; rank 0 writes, the weights by ``save``. ``model`` is the language model inside ``network``.
    """
    state = language_state(network)
    if rank():
        return
    folder.mkdir(parents=True, exist_ok=True)
    plain = copy.deepcopy(model.config)
    plain.save_pretrained(folder)
    # safetensors refuses two names for one storage; loading ties them again.
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    scale = config.lora_alpha / config.lora_rank if config.lora_rank and with_adapter else 0.0
    weights = merge_adapters(state, scale) if config.lora_rank else state
    tensors = {name: value.contiguous() for name, value in weights.items() if name not in tied}
    save(tensors, folder / "model.safetensors")
    tokenizer.save_pretrained(folder)


def export_adapter(network: Any, config: ModelConfig, folder: Path) -> None:
    """Save the adapter alone. Call on all ranks; rank 0 writes.

    Raises ``InvalidField("model.lora_rank")`` when the model has no adapter.
    """
    if not config.lora_rank:
        raise InvalidField("model.lora_rank", "is 0: there is no adapter to export")
    # The base is frozen, and is not gathered for it.
    state = language_state(network, trained_only=True)
    if not rank():
        save_adapter(state, config, folder)


def language_state(network: Any, *, trained_only: bool = False) -> dict[str, torch.Tensor]:
    """Return the language model's full parameters, or the trained ones, under its own names; empty beyond rank 0.

    Raises ``InvalidField("network")`` when the network holds no language model.
    """
    state = whole_state(network, trained_only=trained_only)
    # A network renamed or wrapped once more would export nothing, and an empty file would be published as a version.
    if not any(name.startswith(PREFIX) for name in state) and not rank():
        raise InvalidField("network", "holds no language model: weights would be lost")
    return {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}

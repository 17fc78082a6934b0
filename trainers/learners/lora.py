"""Low-rank adapters (LoRA, arXiv 2106.09685): injection into a frozen model, merging, and export.

An adapted layer computes W x + (alpha / rank) B A x.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.config.sections import ModelConfig

ADAPTER = "default"
BASE = ".base_layer."


def adapt(model: Any, config: ModelConfig) -> Any:
    """Inject adapters of rank ``lora_rank`` into the ``lora_targets`` layers; only the adapters are trained.

    Raises ``InvalidField("model.lora_targets")`` for the output layer or the embedding, and for names that match no
    layer.
    """
    # The output layer's weight is multiplied directly, never called as a module: an adapter there would have no effect.
    if {"lm_head", "embed_tokens"} & set(config.lora_targets):
        raise InvalidField("model.lora_targets", "adapters are for layers between embedding and output")
    from peft import LoraConfig, inject_adapter_in_model

    alpha: Any = config.lora_alpha
    settings = LoraConfig(r=config.lora_rank, lora_alpha=alpha, target_modules=list(config.lora_targets))
    try:
        return inject_adapter_in_model(settings, model, adapter_name=ADAPTER)
    except ValueError as error:
        raise InvalidField("model.lora_targets", str(error)) from error


def merge_adapters(state: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return plain weights by name, with adapters merged: W + scale B A, where ``scale`` is alpha / rank."""
    plain = {}
    for name, value in state.items():
        # The low-rank factors are no weights of the plain model; they enter it through the sum below.
        if ".lora_" in name:
            continue
        if BASE in name and name.endswith(".weight"):
            place = name.removesuffix(BASE + "weight")
            down, up = (state[f"{place}.lora_{part}.{ADAPTER}.weight"] for part in "AB")
            # Samplers know plain weights only: merged, a version with adapters is served like any other.
            value = value + scale * (up @ down)
        plain[name.replace(BASE, ".")] = value
    return plain


def save_adapter(state: Mapping[str, Tensor], config: ModelConfig, folder: Path) -> None:
    """Save the adapter alone in PEFT's format, which PEFT and inference engines can load."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        # PEFT's own names on disk: its wrapper's prefix, and no name of the adapter.
        "base_model.model." + name.replace(f".{ADAPTER}.", "."): value.contiguous()
        for name, value in state.items()
        if ".lora_" in name
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": config.path,
        "r": config.lora_rank,
        "lora_alpha": config.lora_alpha,
        "target_modules": list(config.lora_targets),
        "lora_dropout": 0.0,
        "bias": "none",
        # Loaded for serving: PEFT then freezes the adapter instead of preparing it for training.
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")

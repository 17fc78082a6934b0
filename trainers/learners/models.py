"""Where a learner's model comes from: a folder of safetensors, SmolLM2 from its package, or a tiny one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from fathom.errors import InvalidField
from trainers import tiny
from trainers.config.sections import ModelConfig


def load_tokenizer(config: ModelConfig) -> Any:
    """The tokenizer that belongs to the model; raises ``InvalidField("model.path")``."""
    if config.path == "tiny":
        return tiny.build_tokenizer(config.vocabulary)
    return AutoTokenizer.from_pretrained(folder_of(config))


def load_model(config: ModelConfig, seed: int) -> Any:
    """A causal language model in float32, in train mode; adapters and checkpointing as the settings say.

    Raises ``InvalidField("model.path")`` for a folder that holds none, ``InvalidField("model.vocabulary")`` for a
    tiny model without words.
    """
    if config.path == "tiny":
        if not config.vocabulary:
            raise InvalidField("model.vocabulary", "is empty; a tiny model needs its words")
        model: Any = tiny.build_model(config.vocabulary, config.hidden, config.layers, seed, config.window)
    else:
        model = AutoModelForCausalLM.from_pretrained(folder_of(config), dtype=torch.float32)
    if config.enable_gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def folder_of(config: ModelConfig) -> Path:
    """The folder with config, weights and tokenizer."""
    folder = Path(config.path)
    if not (folder / "config.json").exists():
        raise InvalidField("model.path", f"{config.path!r} is no folder of a model, nor 'tiny'")
    return folder


def export(model: Any, tokenizer: Any, folder: Path) -> None:
    """Weights, config and tokenizer as an inference engine loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    tensors = {n: t.detach().cpu().contiguous() for n, t in model.state_dict().items() if n not in tied}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)

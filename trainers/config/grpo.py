"""Settings of the small GRPO; section ``grpo`` of a YAML file. Does not import torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from fathom.config import ConfigError, Settings


class GrpoConfig(Settings):
    """GRPO on a small verifiable task with a tiny model; every field can be set with ``--set name=value``."""

    model: str = "tiny"
    """Name under which the policy service serves the model."""
    hidden: int = Field(default=64, ge=8)
    """Width of the tiny transformer."""
    layers: int = Field(default=2, ge=1)
    """Number of layers."""
    window: int = Field(default=256, ge=32)
    """Context length: the longest episode in tokens."""
    protocol: Literal["search_r1", "research"] = "search_r1"
    """Episode protocol: tags without tools, or production's research agent with its tools."""
    max_rounds: int = Field(default=1, ge=1)
    """Maximum rounds per episode."""
    digits: int = Field(default=6, ge=2, le=10)
    """Digits of the numbers in the comparison task."""
    held_out: float = Field(default=0.2, gt=0, lt=1)
    """Share of tasks held out from training."""
    steps: int = Field(default=120, ge=1)
    """Optimiser steps."""
    prompts_per_step: int = Field(default=8, ge=1)
    """Tasks per step."""
    group_size: int = Field(default=16, ge=2, le=64)
    """Episodes per task."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature; log-probabilities use the same."""
    max_tokens: int = Field(default=4, ge=1)
    """Maximum tokens per completion."""
    structure_weight: float = Field(default=0.1, ge=0, le=1)
    """Reward of a well-formed but wrong answer."""
    final_weight: float = Field(default=0.03, ge=0, le=1)
    """Reward of an answer that is neither correct nor well-formed."""
    lr: float = Field(default=1e-3, gt=0)
    """Learning rate of AdamW."""
    clip_low: float = Field(default=0.2, gt=0)
    """Lower clip range of the probability ratio."""
    clip_high: float = Field(default=0.28, gt=0)
    """Upper clip range of the probability ratio."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the k3 penalty against the initial policy; 0 loads no reference."""
    entropy_coef: float = Field(default=0.05, ge=0)
    """Weight of the entropy bonus; without it a tiny policy converges on the format before it finds an answer."""
    epochs: int = Field(default=2, ge=1)
    """Passes over each batch."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Maximum gradient norm."""
    micro_batch: int = Field(default=32, ge=1)
    """Rows per forward pass; affects memory, not the gradient."""
    norm_by_std: bool = True
    """Divide advantages by the group's standard deviation."""
    seed: int = 7
    """Seed of weights, tasks and sampling."""
    rollout_timeout_s: float = Field(default=120.0, gt=0)
    """Time limit for the rollouts of one step, in seconds."""
    output: Path = Path(".fathom/training/grpo")
    """Folder for the effective settings and the metrics."""


def read_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse ``["steps=20", "grpo.lr=1e-3"]`` into values; raises ``ConfigError`` for a pair without "="."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise ConfigError(f"--set {pair}: must be name=value", metadata={"field": pair})
        values[name.removeprefix("grpo.")] = number(text)
    return values


def number(text: str) -> Any:
    """Parse a YAML value; "1e-3", which YAML reads as text, becomes a number."""
    value = yaml.safe_load(text)
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value

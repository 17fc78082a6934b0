"""Settings of supervised and preference training; section ``imitation``. Does not import torch."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fathom.core.config import Settings


class ImitationConfig(Settings):
    """Settings of SFT and DPO, in addition to ``data``, ``model``, ``actor.optim`` and ``trainer``.

    ``data.train_files`` and ``data.val_files`` are JSONL of ``fathom export``; ``data.train_batch_size`` counts rows,
    or pairs, per optimiser step; ``actor.ppo_micro_batch_size_per_gpu`` splits them without changing the gradient.
    """

    max_length: int = Field(default=2048, ge=2)
    """Longest row in tokens."""
    truncation: Literal["error", "drop"] = "error"
    """Raise on a longer row, or drop it. Rows are never cut, because the end is what they teach."""
    beta: float = Field(default=0.1, gt=0)
    """DPO: scale of the log-ratio."""
    loss_type: Literal["sigmoid", "ipo", "hinge"] = "sigmoid"
    """DPO: loss function."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """DPO: assumed share of pairs with swapped labels."""
    sft_weight: float = Field(default=0.0, ge=0)
    """DPO: weight of the chosen side's negative log-likelihood per token (RPO)."""

    @model_validator(mode="after")
    def smoothing_has_its_loss(self) -> Self:
        if self.label_smoothing and self.loss_type != "sigmoid":
            raise ValueError(f"label_smoothing belongs to loss_type sigmoid, not {self.loss_type}")
        return self

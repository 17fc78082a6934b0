"""Settings of the implicit process reward model; the values are the recipe's where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fathom.config import Settings


class ProcessSettings(Settings):
    """Which model, how q becomes rewards, and how it learns. Section ``reward.process``."""

    model: Path | None = None
    """Folder with config.json and *.safetensors that phi starts from; None leaves process rewards out."""
    reference: Path | None = None
    """Folder of the frozen reference; None is ``model``."""
    name: str = Field(default="process", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
    """Under which versions are kept; replicas with one name share one model."""
    device: str = "cpu"
    """Where torch computes."""
    beta: float = Field(default=0.05, gt=0)
    """Scale of the log-ratio."""
    lam: float = Field(default=0.0, ge=0, le=1)
    """0 is direct, r = beta q; above it r = beta q + lam r' backwards."""
    use_ground_truth: bool = False
    """Let each row's terms sum to its outcome (``lam`` above 0 only)."""
    granularity: Literal["token", "whole"] = "token"
    """Rewards on every sampled token, or their sum on the last."""
    include_last_token: bool = False
    """Pay the last sampled token too; the recipe does not."""
    norm: Literal["batch_norm", "none"] = "batch_norm"
    """Scale by the largest return of the request."""
    loss: Literal["ce", "dpo", "bon_acc", "bon_rm"] = "ce"
    """dpo and bon_* compare within groups."""
    bon_reduction: Literal["sum", "mean"] = "mean"
    """"sum" is the recipe's, whose scale grows with the batch."""
    lr: float = Field(default=1e-6, gt=0)
    """AdamW's learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's weight decay."""
    grad_clip: float = Field(default=10.0, gt=0)
    """Largest norm of the gradient."""
    mini_rows: int = Field(default=0, ge=0)
    """Rows per optimiser step; 0 takes the whole batch."""
    max_tokens: int = Field(default=16_384, ge=16)
    """Padded tokens of one forward pass."""
    max_items: int = Field(default=1_024, ge=1)
    """Items of one request."""
    max_item_tokens: int = Field(default=32_768, ge=2)
    """Tokens of one item."""
    kept_versions: int = Field(default=2, ge=1)
    """Checkpoints that stay in the object store."""

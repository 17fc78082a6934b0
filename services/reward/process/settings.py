"""Settings of the implicit process reward model; defaults are those of PRIME's recipe where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fathom.core.config import Settings


class ProcessSettings(Settings):
    """Model, reward and training settings; section ``reward.process``."""

    model: Path | None = None
    """Folder with config.json and *.safetensors that phi starts from; None disables process rewards."""
    reference: Path | None = None
    """Folder of the frozen reference; None uses ``model``."""
    name: str = Field(default="process", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
    """Name under which versions are stored; replicas with the same name share one model."""
    device: str = "cpu"
    """Torch device."""
    beta: float = Field(default=0.05, gt=0)
    """Scale of the log-ratio."""
    lam: float = Field(default=0.0, ge=0, le=1)
    """0 gives r = beta q; above it r = beta q + lam r', computed backwards."""
    use_ground_truth: bool = False
    """Make each row's terms sum to its outcome (``lam`` above 0 only)."""
    granularity: Literal["token", "whole"] = "token"
    """Rewards on every sampled token, or their sum on the last."""
    include_last_token: bool = False
    """Reward the last sampled token too; PRIME's recipe does not."""
    norm: Literal["batch_norm", "none"] = "batch_norm"
    """Scale by the largest return of the request."""
    loss: Literal["ce", "dpo", "bon_acc", "bon_rm"] = "ce"
    """Loss; dpo and bon_* compare within groups."""
    bon_reduction: Literal["sum", "mean"] = "mean"
    """Reduction of best-of-n losses; the recipe's is "sum", whose scale grows with the batch."""
    lr: float = Field(default=1e-6, gt=0)
    """AdamW's learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's weight decay."""
    grad_clip: float = Field(default=10.0, gt=0)
    """Maximum norm of the gradient."""
    mini_rows: int = Field(default=0, ge=0)
    """Rows per optimiser step; 0 takes the whole batch."""
    max_tokens: int = Field(default=16_384, ge=16)
    """Padded tokens of one forward pass."""
    max_items: int = Field(default=1_024, ge=1)
    """Maximum items of one request."""
    max_item_tokens: int = Field(default=32_768, ge=2)
    """Maximum tokens of one item."""
    kept_versions: int = Field(default=2, ge=1)
    """Number of checkpoints kept in the object store."""

"""The sections of what learns: optimiser, batching, actor, critic, PRIME's reward model. Names are verl's."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fathom.config import Settings

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


class OptimConfig(Settings):
    """AdamW and its schedule."""

    lr: float = Field(default=1e-6, gt=0)
    """Learning rate after the warm-up."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled decay."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the moments."""
    lr_scheduler_type: Literal["constant", "cosine"] = "constant"
    """Shape after the warm-up."""
    lr_warmup_steps: int = -1
    """Steps of linear warm-up; negative takes the ratio."""
    lr_warmup_steps_ratio: float = Field(default=0.0, ge=0, le=1)
    """Share of all steps that warm up."""
    min_lr_ratio: float = Field(default=0.0, ge=0, le=1)
    """Where cosine ends, as a share of lr."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""


class BatchingConfig(Settings):
    """How a batch is cut for one learner; none of it changes a gradient but ``ppo_mini_batch_size``."""

    ppo_mini_batch_size: int = Field(default=64, ge=1)
    """Prompts per optimiser step, over all ranks."""
    ppo_micro_batch_size_per_gpu: int = Field(default=8, ge=1)
    """Rows per forward pass of a rank."""
    use_dynamic_bsz: bool = False
    """Cut by tokens, not by rows."""
    ppo_max_token_len_per_gpu: int = Field(default=16384, ge=1)
    """Tokens per forward pass then."""
    ppo_epochs: int = Field(default=1, ge=1)
    """Passes over a batch."""
    ulysses_sequence_parallel_size: int = Field(default=1, ge=1)
    """Ranks that share a sequence."""


class ActorConfig(BatchingConfig):
    """The policy's learner."""

    optim: OptimConfig = OptimConfig()
    """Optimiser."""
    clip_ratio_low: float = Field(default=0.2, gt=0)
    """Lower clip."""
    clip_ratio_high: float = Field(default=0.2, gt=0)
    """Upper clip."""
    clip_ratio_c: float | None = Field(default=3.0, gt=1)
    """Dual clip; None leaves it off."""
    entropy_coeff: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    use_kl_loss: bool = False
    """Penalise distance to the reference in the loss."""
    kl_loss_coef: float = Field(default=0.001, ge=0)
    """Its weight."""
    kl_loss_type: Literal["kl", "abs", "mse", "low_var_kl", "k1+", "k3+"] = "low_var_kl"
    """Its estimator."""
    loss_agg_mode: Aggregation = "token-mean"
    """Denominator, always of the whole mini-batch."""


class CriticConfig(BatchingConfig):
    """The value function's learner."""

    optim: OptimConfig = OptimConfig(lr=1e-5)
    """Optimiser."""
    cliprange_value: float = Field(default=0.5, gt=0)
    """Clip of the value's change."""
    loss_agg_mode: Aggregation = "token-mean"
    """Denominator."""


class RewardModelConfig(Settings):
    """PRIME's implicit process reward model (arXiv 2502.01456)."""

    enable: bool = False
    """Train and use one."""
    path: str | None = None
    """Its start; None is the actor's."""
    ref_path: str | None = None
    """Its reference; None is its start."""
    ref_type: Literal["freeze", "policy"] = "freeze"
    """A frozen model, or the rollout's own log-probabilities."""
    update: Literal["none", "before", "after", "reverse"] = "before"
    """When it learns, relative to scoring."""
    loss_type: Literal["ce", "dpo", "bon_acc", "bon_rm"] = "ce"
    """Its loss."""
    bon_reduction: Literal["sum", "mean"] = "mean"
    """"sum" is the recipe's, whose scale grows with the micro-batch."""
    beta_train: float = Field(default=0.05, gt=0)
    """Scale of the log-ratio."""
    lambda_: float = Field(default=0.0, ge=0, le=1, alias="lambda")
    """0 is direct; else the recursion's factor."""
    prime_use_gt: bool = False
    """Let each row sum to its outcome (lambda above 0 only)."""
    prime_granularity: Literal["token", "whole"] = "token"
    """Where rewards stand."""
    include_last_token: bool = False
    """Token rewards reach the last valid token; False is the recipe's parity."""
    prime_norm: Literal["batch_norm", "none"] = "batch_norm"
    """Scale by the largest return."""
    norm_scope: Literal["global", "rank"] = "global"
    """Over which rows; "rank" is the recipe's parity."""
    mini_batch_size: int = Field(default=64, ge=1)
    """Prompts per optimiser step."""
    micro_batch_size_per_gpu: int = Field(default=8, ge=1)
    """Rows per forward pass."""
    use_dynamic_bsz: bool = False
    """Cut by tokens."""
    max_token_len_per_gpu: int = Field(default=16384, ge=1)
    """Tokens per forward pass then."""
    ulysses_sequence_parallel_size: int = Field(default=1, ge=1)
    """Ranks that share a sequence."""
    optim: OptimConfig = OptimConfig(grad_clip=10.0)
    """Optimiser."""

    model_config = Settings.model_config | {"populate_by_name": True}

    @model_validator(mode="after")
    def losses_have_their_groups(self) -> Self:
        if self.enable and self.loss_type != "ce" and self.update != "reverse":
            raise ValueError(f"loss_type {self.loss_type} compares within groups: it needs update: reverse")
        return self

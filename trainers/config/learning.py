"""Settings sections of the learners: optimiser, batching, actor, critic, PRIME's reward model. Names are verl's."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fathom.core.config import Settings

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


class OptimConfig(Settings):
    """AdamW and its schedule."""

    lr: float = Field(default=1e-6, gt=0)
    """Learning rate after the warm-up."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the moments."""
    lr_scheduler_type: Literal["constant", "cosine"] = "constant"
    """Schedule after the warm-up."""
    lr_warmup_steps: int = -1
    """Steps of linear warm-up; negative uses ``lr_warmup_steps_ratio``."""
    lr_warmup_steps_ratio: float = Field(default=0.0, ge=0, le=1)
    """Share of all steps used for warm-up."""
    min_lr_ratio: float = Field(default=0.0, ge=0, le=1)
    """Final learning rate of the cosine schedule, as a share of ``lr``."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Maximum gradient norm."""


class BatchingConfig(Settings):
    """Splitting of a batch for one learner; only ``ppo_mini_batch_size`` and ``ppo_epochs`` affect training."""

    ppo_mini_batch_size: int = Field(default=64, ge=1)
    """Prompts per optimiser step, over all ranks."""
    ppo_micro_batch_size_per_gpu: int = Field(default=8, ge=1)
    """Rows per forward pass of a rank."""
    use_dynamic_bsz: bool = False
    """Split by tokens instead of rows."""
    ppo_max_token_len_per_gpu: int = Field(default=16384, ge=1)
    """Tokens per forward pass with ``use_dynamic_bsz``: rows times the longest; of rows joined by
    ``use_remove_padding`` the sum, in which a prompt that several rows have counts once.
    """
    use_remove_padding: bool | None = None
    """Join the rows of a forward pass to one sequence without padding, with attention within each row; rows with equal
    prompts, as those of a group, share the prompt's computation. None joins them where the model's attention allows it
    and no ranks share a sequence.
    """
    ppo_epochs: int = Field(default=1, ge=1)
    """Passes over a batch."""
    ulysses_sequence_parallel_size: int = Field(default=1, ge=1)
    """Number of ranks that share a sequence."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """Number of ranks that share the matrices of every layer."""

    @property
    def sharing(self) -> int:
        """Return the number of ranks that work on the same rows."""
        return self.ulysses_sequence_parallel_size * self.tensor_parallel_size

    @model_validator(mode="after")
    def ranks_share_one_thing(self) -> Self:
        if self.tensor_parallel_size > 1 and self.ulysses_sequence_parallel_size > 1:
            raise ValueError("tensor_parallel_size and ulysses_sequence_parallel_size above 1 exclude each other")
        return self

    @model_validator(mode="after")
    def shared_sequences_are_padded(self) -> Self:
        # Ranks that share sequences exchange equal parts of equally long rows.
        if self.use_remove_padding and self.ulysses_sequence_parallel_size > 1:
            raise ValueError("use_remove_padding and ulysses_sequence_parallel_size above 1 exclude each other")
        return self


class ActorConfig(BatchingConfig):
    """Settings of the policy's learner."""

    optim: OptimConfig = OptimConfig()
    """Optimiser."""
    loss_mode: Literal["clip", "cispo"] = "clip"
    """PPO's clipped objective, or CISPO: the importance weight is clipped, and every token keeps its gradient."""
    ratio_level: Literal["token", "sequence", "sequence_token"] = "token"
    """Probability ratio of each token, or of the whole row, the geometric mean of its tokens' (GSPO); with
    ``sequence_token`` the row's value with each token's own gradient (GSPO-token). A row is one segment of an episode.
    """
    clip_ratio_low: float = Field(default=0.2, gt=0)
    """Lower clip range of the probability ratio; 1 or more sets no lower bound."""
    clip_ratio_high: float = Field(default=0.2, gt=0)
    """Upper clip range of the probability ratio."""
    clip_ratio_c: float | None = Field(default=3.0, gt=1)
    """Bound of dual-clip PPO; None disables it."""
    entropy_coeff: float = Field(default=0.0, ge=0)
    """Weight of the entropy bonus."""
    use_kl_loss: bool = False
    """Add a KL penalty against the reference to the loss."""
    kl_loss_coef: float = Field(default=0.001, ge=0)
    """Weight of the KL loss."""
    kl_loss_type: Literal["kl", "abs", "mse", "low_var_kl", "k1+", "k3+"] = "low_var_kl"
    """Estimator of the KL loss. On samples of the policy itself the gradient of ``mse`` is unbiased, and that of
    ``k1+`` and ``k3+``, which have it; that of ``kl`` has mean 0, and that of ``low_var_kl`` is biased.
    """
    kl_loss_weighted: bool = False
    """Weight the KL loss by the probability ratio, with gradient: ``kl`` and ``low_var_kl`` are then unbiased."""
    loss_agg_mode: Aggregation = "token-mean"
    """Loss aggregation; the denominator is always that of the whole mini-batch."""
    loss_scale_factor: float | None = Field(default=None, gt=0)
    """Constant divisor of ``seq-mean-token-sum-norm`` in tokens (Dr. GRPO); None is the batch's padded width."""

    @model_validator(mode="after")
    def weighted_estimators_have_the_kl_as_mean(self) -> Self:
        # The others' value is not the KL in the mean, or their gradient is already corrected: weighted, it would count
        # twice.
        if self.kl_loss_weighted and self.kl_loss_type not in ("kl", "low_var_kl"):
            raise ValueError(f"kl_loss_weighted belongs to kl_loss_type kl or low_var_kl, not {self.kl_loss_type}")
        return self


class CriticConfig(BatchingConfig):
    """Settings of the value function's learner."""

    optim: OptimConfig = OptimConfig(lr=1e-5)
    """Optimiser."""
    cliprange_value: float = Field(default=0.5, gt=0)
    """Clip range of the value's change."""
    loss_agg_mode: Aggregation = "token-mean"
    """Loss aggregation."""


class RewardModelConfig(Settings):
    """Settings of PRIME's implicit process reward model (arXiv 2502.01456)."""

    enable: bool = False
    """Train and use a reward model."""
    path: str | None = None
    """Initial weights; None uses the actor's."""
    ref_path: str | None = None
    """Weights of its reference; None uses its initial weights."""
    ref_type: Literal["freeze", "policy"] = "freeze"
    """Reference: a frozen model, or the rollout's own log-probabilities."""
    update: Literal["none", "before", "after", "reverse"] = "before"
    """Order of learning relative to scoring."""
    loss_type: Literal["ce", "dpo", "bon_acc", "bon_rm"] = "ce"
    """Loss function."""
    bon_reduction: Literal["sum", "mean"] = "mean"
    """Reduction of the bon losses; "sum" is the public recipe's, whose scale grows with the micro-batch."""
    beta_train: float = Field(default=0.05, gt=0)
    """Scale of the log-ratio."""
    lambda_: float = Field(default=0.0, ge=0, le=1, alias="lambda")
    """0 takes direct rewards; otherwise the factor of the recursion."""
    prime_use_gt: bool = False
    """Make each row's rewards sum to its outcome (only with lambda above 0)."""
    prime_granularity: Literal["token", "whole"] = "token"
    """Placement of rewards: on every token, or one for the whole response."""
    include_last_token: bool = False
    """Include the last valid token in token rewards; False matches the public recipe."""
    prime_norm: Literal["batch_norm", "none"] = "batch_norm"
    """Normalise by the largest return."""
    norm_scope: Literal["global", "rank"] = "global"
    """Rows over which to normalise; "rank" matches the public recipe."""
    mini_batch_size: int = Field(default=64, ge=1)
    """Prompts per optimiser step."""
    micro_batch_size_per_gpu: int = Field(default=8, ge=1)
    """Rows per forward pass."""
    use_dynamic_bsz: bool = False
    """Split by tokens instead of rows."""
    max_token_len_per_gpu: int = Field(default=16384, ge=1)
    """Tokens per forward pass with ``use_dynamic_bsz``."""
    ulysses_sequence_parallel_size: int = Field(default=1, ge=1)
    """Number of ranks that share a sequence; must be 1."""
    optim: OptimConfig = OptimConfig(grad_clip=10.0)
    """Optimiser."""

    model_config = Settings.model_config | {"populate_by_name": True}

    @model_validator(mode="after")
    def losses_have_their_groups(self) -> Self:
        # The other orders update before the group's scores exist, which these losses compare with.
        if self.enable and self.loss_type != "ce" and self.update != "reverse":
            raise ValueError(f"loss_type {self.loss_type} compares within groups: it needs update: reverse")
        return self

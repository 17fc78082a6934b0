"""PRIME's implicit reward model on one data-parallel rank: scoring and updates (arXiv 2502.01456).

The maths is in ``domain.process_reward``, shared with the reward service; this module reads and writes
``DataProto`` and synchronises ranks. Shapes: B rows (whole groups of n), T response columns, S = prompt + response
columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor
from torch.nn import Module
from torch.nn.utils import clip_grad_norm_

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.masked import row_sums
from fathom.domain.process_reward.model import Groups, ImplicitRewardModel, Learning, Scored, Scoring, forward_q
from fathom.domain.process_reward.rewards import largest_return, prime_norm
from fathom.domain.process_reward.sequences import Sequences
from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import RewardModelConfig
from fathom.trainers.learners.checkpoint import LearnerState
from fathom.trainers.learners.forward import split_largest
from fathom.trainers.learners.ranks import fsdp
from fathom.trainers.learners.ranks.fsdp import sum_gradients, sum_over_ranks, world
from fathom.trainers.learners.stepping import learning_rate

NEEDS_GROUPS = ("dpo", "bon_acc", "bon_rm")


class DataParallelPRIMERewardModel(ImplicitRewardModel):
    """The reward model phi and its frozen reference on this rank.

    Under torch.distributed, gradients are summed over ranks and divided by the total number of rows, so the step does
    not depend on the number of ranks; ``norm_scope: global`` takes the normaliser's maximum over all ranks. With
    ``shard``, both networks and phi's optimiser moments are sharded over ranks instead of replicated, and with
    ``offload`` kept in the memory of the CPU, while ``device`` computes. Without ``ref_module``, the rollout's own
    log-probabilities serve as the reference.
    """

    def __init__(
        self,
        config: RewardModelConfig,
        reward_module: Module,
        ref_module: Module | None,
        *,
        shard: bool = False,
        offload: bool = False,
        device: str = "cpu",
        total_steps: int | None = None,
    ) -> None:
        self.config, self.device = config, torch.device(device)
        optim = config.optim
        # Before the base class makes its optimiser, which must hold the sharded parameters.
        for module in (reward_module, ref_module) if shard else ():
            if module is not None:
                fsdp.shard(module, module, offload=offload)
        super().__init__(
            reward_module,
            ref_module,
            Scoring(
                beta=config.beta_train,
                lam=config.lambda_,
                use_ground_truth=config.prime_use_gt,
                granularity=config.prime_granularity,
                include_last_token=config.include_last_token,
                norm="none",
            ),
            Learning(
                loss=config.loss_type,
                bon_reduction=config.bon_reduction,
                lr=optim.lr,
                weight_decay=optim.weight_decay,
                grad_clip=optim.grad_clip,
            ),
        )
        # The shared model takes no betas of its own; AdamW reads them at each step, so that setting them afterwards is
        # in time.
        self.optimizer.param_groups[0]["betas"] = optim.betas
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(optim, total_steps, step)
        )

    def _forward_micro_batch(self, data: DataProto) -> Tensor:
        """Return q [B, T] with gradient through phi only, 0 outside the mask."""
        batch = sequences(data)
        return responses(forward_q(self.phi, batch, self.reference, self.reference_log_probs(data)), data)

    def prime_norm(self, token_level_scores: Tensor) -> Tensor:
        """Divide scores [B, T] by the largest absolute return, over all ranks or this one (``norm_scope``)."""
        # Reduced over ranks by default: with each rank's own maximum, the rewards of a row would depend on which rank
        # it is on.
        largest = largest_return(token_level_scores)
        if self.config.norm_scope == "global" and distributed.is_initialized():
            distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
        return prime_norm(token_level_scores, self.config.prime_norm, largest)

    def rewards(self, q: Tensor, mask: Tensor, outcome: Tensor | None = None, largest: Tensor | None = None) -> Tensor:
        """Return the rewards [B, S] computed from q as configured, normalised over ranks."""
        return self.prime_norm(super().rewards(q, mask, outcome))

    def compute_rm_score(self, data: DataProto) -> tuple[DataProto, dict[str, float]]:
        """Compute ``rm_scores`` and ``q``, [B, T] float32, without gradient; also return the metrics.

        Rows keep their order, however they were batched.
        """
        data = data.to(self.device)
        batch = self.build_input(data)
        found = self.score(batch, samples(data), read_outcomes(data), ref_log_probs=self.reference_log_probs(data))
        return pack_scores(found, data), dict(found.metrics)

    def update_rm(self, data: DataProto) -> tuple[DataProto, dict[str, float]]:
        """Make one pass over the batch with one optimiser step per mini-batch.

        Returns the scores computed before the first step, and the metrics. Reads ``acc`` [B] in [0, 1], and for the
        losses dpo and bon_* also ``Q_bc`` and ``acc_bc`` [B, n] (see ``broadcast_groups``; requires ``update:
        reverse``). Raises ``InvalidField`` naming a missing field.
        """
        data = data.to(self.device)
        batch, outcome = self.build_input(data), data.tensor("acc")
        groups = None
        if self.config.loss_type in NEEDS_GROUPS:
            groups = Groups(data.tensor("Q_bc"), data.tensor("acc_bc"))
        found = self.update(batch, outcome, samples(data), self.reference_log_probs(data), groups)
        # Once per training step, however many mini-batches it has, like the schedules of the other learners.
        self.schedule.step()
        return pack_scores(found, data), dict(found.metrics)

    def build_input(self, data: DataProto) -> Sequences:
        """Build the model's input and set mini-batch and micro-batch sizes for this batch.

        Raises ``InvalidField("reward_model.mini_batch_size")`` when the rows do not divide evenly among ranks.
        """
        ranks = world()
        rows = self.config.mini_batch_size * samples(data)
        if rows % ranks:
            raise InvalidField("reward_model.mini_batch_size", f"{rows} rows cannot be shared by {ranks} ranks")
        batch = sequences(data)
        tokens = self.config.max_token_len_per_gpu
        if not self.config.use_dynamic_bsz:
            tokens = self.config.micro_batch_size_per_gpu * batch.input_ids.shape[1]
        self.learning = Learning(**(vars(self.learning) | {"mini_rows": rows // ranks, "max_tokens": tokens}))
        return batch

    def reference_log_probs(self, data: DataProto) -> Tensor | None:
        """Return the old policy's log-probabilities [B, S] when there is no reference model, else None."""
        if self.reference is not None:
            return None
        # Shifted behind the prompt: response columns begin after its width.
        old = data.tensor("old_log_probs")
        return torch.nn.functional.pad(old, (data.tensor("prompts").shape[1], 0))

    def passes(self, lengths: Sequence[int]) -> list[list[int]]:
        """Split rows into micro-batches, the same number on all ranks."""
        found = super().passes(lengths)
        # Sharded parameters are gathered from all ranks in every pass, so every rank must make as many.
        return split_largest(found, fsdp.max_over_ranks(len(found)))

    def clip(self) -> float:
        """Clip phi's gradient by its global norm (all shards together) and return the norm before clipping."""
        found = clip_grad_norm_(self.phi.parameters(), self.learning.grad_clip)
        return float(found.full_tensor() if isinstance(found, DTensor) else found)

    def learner_state(self) -> LearnerState:
        """Return everything the next update depends on; the shared model's own ``state`` knows no shards."""
        return LearnerState(self.phi, self.optimizer, self.schedule)

    def rows_together(self, rows: int) -> int:
        """Return the number of mini-batch rows summed over all ranks."""
        return int(sum_over_ranks([rows])[0])

    def gather_gradients(self, loss: float) -> float:
        """Sum gradients and loss over all ranks; returns the summed loss."""
        # A sum, not a mean: each rank's loss is already divided by the rows of all ranks.
        sum_gradients(self.phi.parameters())
        return sum_over_ranks([loss])[0]


def broadcast_groups(data: DataProto) -> DataProto:
    """Add ``Q_bc`` and ``acc_bc`` [B, n]: each row's whole group as summed q and as outcomes (``update: reverse``)."""
    n = samples(data)
    data.require_groups(n)
    sums = row_sums(data.tensor("q"), data.tensor("response_mask"))
    groups = Groups.of(sums, data.tensor("acc"), n)
    return data.with_tensors(Q_bc=groups.q, acc_bc=groups.outcome)


def sequences(data: DataProto) -> Sequences:
    """Join prompts and responses into model input, masked to the tokens sampled by the policy.

    Tool observations are masked out: they carry no reward.
    """
    prompts = torch.zeros_like(data.tensor("prompts"))
    mask = torch.cat([prompts, data.tensor("response_mask")], dim=1)
    return Sequences(data.tensor("input_ids"), data.tensor("attention_mask"), mask)


def responses(values: Tensor, data: DataProto) -> Tensor:
    """Return the response columns [B, T] of values [B, S]."""
    return values[:, data.tensor("prompts").shape[1] :]


def samples(data: DataProto) -> int:
    """Return the number of rows per prompt.

    Raises ``InvalidField`` when ``meta_info["n"]`` is missing or does not fit.
    """
    n = data.meta_info.get("n")
    if not isinstance(n, int) or n < 1 or len(data) % n:
        raise InvalidField("meta_info.n", f"is {n}; {len(data)} rows are no groups of it")
    return n


def read_outcomes(data: DataProto) -> Tensor | None:
    """Return the verified outcomes ``acc`` [B], or None when the rows were not verified."""
    return data.batch.get("acc")


def pack_scores(found: Scored, data: DataProto) -> DataProto:
    """Pack scores and q into a ``DataProto`` on the CPU."""
    fields = {"rm_scores": responses(found.rewards, data), "q": responses(found.q, data)}
    return DataProto.from_dict({name: value.cpu() for name, value in fields.items()})

"""Supervised fine-tuning on exported episodes: rows, micro-batches, steps, validation, checkpoints.

Loss = -sum over target tokens of log p / N, with N the target tokens of the step's whole batch, independent of the
micro-batches. Tool results and user messages are never targets. ``fathom.trainers.algorithms.dpo`` runs the same loop
with another loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from fathom.trainers.algorithms.context import TrainingDiverged
from fathom.trainers.batch import DataProto
from fathom.trainers.checkpoints import restore_checkpoint
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.data.dataset import pad_id
from fathom.trainers.data.loader import EpochOrder
from fathom.trainers.data.sequences import Row, batch, fingerprint, read_rows
from fathom.trainers.interfaces import Checkpoints
from fathom.trainers.learners import checkpoint
from fathom.trainers.learners.forward import crop_padding, passes
from fathom.trainers.learners.models import export, export_adapter, load_model, load_tokenizer
from fathom.trainers.learners.networks import Placement, PolicyNetwork, device_of
from fathom.trainers.learners.stepping import Stepper
from fathom.trainers.objectives.preference_loss import sft_loss
from fathom.trainers.transfers import StoreTransfer


class Named(Protocol):
    """A row or a pair with an id."""

    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Named)
Taken = TypeVar("Taken", bound=Named, contravariant=True)


class Objective(Protocol[Taken]):
    """A loss over rows, with their collation and split into micro-batches."""

    def collate(self, rows: Sequence[Taken]) -> DataProto: ...

    def parts(self, network: PolicyNetwork, data: DataProto) -> list[Tensor]:
        """Return the row indices of each micro-batch."""
        ...

    def loss(self, network: PolicyNetwork, data: DataProto, rows: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return a micro-batch's share of the batch loss, with gradient, and of the metrics.

        Shares add up over micro-batches.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return cached results as plain JSON, to be saved in checkpoints."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None: ...


@dataclass
class Imitation:
    """Objective: negative log-likelihood per target token."""

    config: TrainConfig
    pad: int

    def collate(self, rows: Sequence[Row]) -> DataProto:
        return batch(rows, self.pad)

    def parts(self, network: PolicyNetwork, data: DataProto) -> list[Tensor]:
        return passes(data, self.config.actor, is_packed=network.packed)

    def loss(self, network: PolicyNetwork, data: DataProto, rows: Tensor) -> tuple[Tensor, dict[str, float]]:
        # Of the whole batch, not the micro-batch: a mean of means would weigh the tokens of short rows more.
        tokens = float(data.tensor("response_mask").sum())
        part = crop_padding(data[rows])
        mask = part.tensor("response_mask")
        log_probs = network(part, 1.0, trained=True).log_probs
        value = sft_loss(log_probs, mask, tokens)
        # A token more likely than all others together is certainly what greedy decoding gives.
        sure = float(((log_probs > -0.6931) & mask.bool()).sum()) / tokens
        return value, {"loss": float(value.detach()), "sure": sure}

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        return None


class ImitationLearner(StoreTransfer):
    """Checkpoint files of the one learner, in this process."""

    def __init__(self, stepper: Stepper) -> None:
        self.worker, self.stepper = self, stepper

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.stepper.state())

    def load_checkpoint(self, folder: Path, fetch: checkpoint.Fetch = checkpoint.is_here) -> None:
        checkpoint.load(folder, self.stepper.state(), fetch)


@dataclass
class ImitationTrainer(Generic[R]):
    """Training loop over ``rows`` in a seeded order, resuming from the newest of ``checkpoints``.

    Raises ``Conflict`` when the checkpoint belongs to other rows or another order, ``TrainingDiverged`` naming the
    step.
    """

    config: TrainConfig
    model: Any
    objective: Objective[R]
    rows: Sequence[R]
    held: Sequence[R] = ()
    log: Callable[[int, dict[str, float]], None] = lambda step, metrics: None
    checkpoints: Checkpoints | None = None
    done: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        data = self.config.data
        # Few rows are one batch, since the order drops incomplete ones and would leave nothing.
        size = min(data.train_batch_size, len(self.rows))
        self.order = EpochOrder(len(self.rows), size, shuffle=data.shuffle, seed=data.seed)
        most = self.config.trainer.total_training_steps
        every = len(self.order) * self.config.trainer.total_epochs
        self.total_steps = every if most is None else min(every, most)
        self.network = PolicyNetwork(self.model, Placement.of(self.config), self.config.actor)
        self.stepper = Stepper(self.network, self.config.actor.optim, self.total_steps)
        self.learner = ImitationLearner(self.stepper)

    def fit(self) -> dict[str, float]:
        """Train to the last step; return the last metrics, with those of the held-out rows under ``val/``."""
        trainer = self.config.trainer
        self.resume()
        metrics = self.validate() if trainer.val_before_train and not self.done else {}
        if metrics:
            self.log(self.done, metrics)
        for rows in self.remaining():
            metrics = self.step(rows)
            self.done += 1
            last = self.done == self.total_steps
            if last or (trainer.test_freq and self.done % trainer.test_freq == 0):
                metrics |= self.validate()
            self.log(self.done, metrics)
            if last or (trainer.save_freq and self.done % trainer.save_freq == 0):
                self.save_checkpoint()
        return metrics

    def remaining(self) -> Iterator[list[R]]:
        """Yield the batches from the current step on."""
        while self.done < self.total_steps:
            # The position follows from the number of steps alone: a checkpoint needs no state of the order.
            self.order.epoch, self.order.position = divmod(self.done, len(self.order))
            for numbers in self.order:
                yield [self.rows[number] for number in numbers]
                if self.done == self.total_steps:
                    return

    def step(self, rows: Sequence[R]) -> dict[str, float]:
        """Make one optimiser step over all micro-batches.

        Raises ``TrainingDiverged`` for a loss or norm that is not finite.
        """
        self.network.train()
        data = self.objective.collate(rows).to(device_of(self.network))
        metrics: dict[str, float] = {}
        for part in self.objective.parts(self.network, data):
            loss, shares = self.objective.loss(self.network, data, part)
            loss.backward()
            add(metrics, shares)
        metrics["lr"] = self.stepper.lr
        metrics["grad_norm"] = self.stepper.step()
        # The optimiser has skipped such a step, so that the weights are still those of the last good one.
        if not torch.isfinite(torch.tensor([metrics["loss"], metrics["grad_norm"]])).all():
            raise TrainingDiverged(f"step {self.done + 1}: loss {metrics['loss']}, gradient {metrics['grad_norm']}")
        self.stepper.advance()
        return {f"train/{name}": value for name, value in metrics.items()}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Compute metrics over all held-out rows as one batch; empty without such rows."""
        if not self.held:
            return {}
        self.network.eval()
        data = self.objective.collate(self.held).to(device_of(self.network))
        metrics: dict[str, float] = {}
        for part in self.objective.parts(self.network, data):
            add(metrics, self.objective.loss(self.network, data, part)[1])
        return {f"val/{name}": value for name, value in metrics.items()}

    def identity(self) -> dict[str, Any]:
        """Return the data and order to which a position refers."""
        order = self.order
        names = fingerprint([row.id for row in self.rows])
        # A position in another order would train some rows twice and others never, without a sign of it.
        return {"rows": names, "batch": order.batch_size, "shuffle": order.shuffle, "seed": order.seed}

    def save_checkpoint(self) -> None:
        """Save model, optimiser, schedule, random state and position atomically."""
        if self.checkpoints is not None:
            state = {"step": self.done, **self.identity(), "objective": self.objective.state()}
            self.checkpoints.save(self.done, partial(self.learner.upload, "save_checkpoint"), state)

    def resume(self) -> None:
        """Restore the newest checkpoint, or that of step ``trainer.resume_path``; without one, start at step 0."""
        if self.checkpoints is not None:
            read = self.learner.restore
            state = restore_checkpoint(self.checkpoints, self.config.trainer, self.identity(), read)
            if state is not None:
                self.done = int(state["step"])
                self.objective.load_state(state["objective"])


class SftTrainer(ImitationTrainer[Row]):
    """SFT trainer built from settings: data files, the model at ``model.path``, and an output folder for the result.

    Raises ``InvalidField`` naming a file's line and field, or ``model.path``; ``NotFound`` for a missing file.
    """

    def __init__(
        self,
        config: TrainConfig,
        log: Callable[[int, dict[str, float]], None] = lambda s, m: None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.tokenizer = load_tokenizer(config.model)
        rows = read_rows(config.data.train_files, config.imitation)
        held = read_rows(config.data.val_files, config.imitation) if config.data.val_files else []
        network = load_model(config.model, config.trainer.seed).to(config.trainer.device)
        objective = Imitation(config, pad_id(self.tokenizer))
        super().__init__(config, network, objective, rows, held, log, checkpoints)

    def fit(self) -> dict[str, float]:
        """Train, then write what was learnt, as ``write_result`` does."""
        metrics = super().fit()
        write_result(self.network, self.model, self.tokenizer, self.config)
        return metrics


def write_result(network: PolicyNetwork, model: Any, tokenizer: Any, config: TrainConfig) -> None:
    """Write the model to ``trainer.output``/model, which another training can use as ``model.path``.

    With ``model.lora_publish`` "adapter" the adapter alone is written, to ``trainer.output``/adapter.
    """
    if config.model.lora_rank and config.model.lora_publish == "adapter":
        export_adapter(network, config.model, config.trainer.output / "adapter")
    else:
        export(network, model, tokenizer, config.model, config.trainer.output / "model")


def add(metrics: dict[str, float], shares: dict[str, float]) -> None:
    """Add a micro-batch's shares to the metrics in place."""
    for name, value in shares.items():
        metrics[name] = metrics.get(name, 0.0) + value

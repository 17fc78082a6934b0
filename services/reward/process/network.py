"""The network with its optimiser; the only importer of torch. Blocking, one thread at a time."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData, Internal, InvalidField, MissingExtra
from fathom.domain.encoders.loading import LOADING
from fathom.services.reward.process.settings import ProcessSettings

EXTRA = "reward"


@dataclass(frozen=True)
class ProcessItem:
    """Ids of prompt and response, 1 where the model sampled, and the outcome in [0, 1]."""

    token_ids: Sequence[int]
    mask: Sequence[int]
    outcome: float


class Network:
    """phi and its reference, loaded from folders; raises ``MissingExtra`` without torch or transformers."""

    def __init__(self, settings: ProcessSettings) -> None:
        if settings.model is None:
            raise InvalidField("process.model", "names no folder")
        try:
            from fathom.domain.process_reward.model import ImplicitRewardModel, Learning, Scoring
        except ImportError as error:
            raise MissingExtra(error.name or "torch", EXTRA) from error
        phi = load_network(settings.model, settings.device)
        reference = load_network(settings.reference or settings.model, settings.device)
        self._settings = settings
        self.vocabulary = int(phi.get_input_embeddings().weight.shape[0])
        # Log-ratios compare both models token by token, so their ids must mean the same.
        if int(reference.get_input_embeddings().weight.shape[0]) != self.vocabulary:
            raise CorruptData(str(settings.reference), f"has another vocabulary than {settings.model}")
        self._model = ImplicitRewardModel(
            phi,
            reference,
            Scoring(
                settings.beta,
                settings.lam,
                settings.use_ground_truth,
                settings.granularity,
                settings.include_last_token,
                settings.norm,
            ),
            Learning(
                settings.loss,
                settings.bon_reduction,
                settings.lr,
                settings.weight_decay,
                settings.grad_clip,
                settings.mini_rows,
                settings.max_tokens,
            ),
        )

    def score(self, items: Sequence[ProcessItem], group_size: int) -> tuple[list[list[float]], dict[str, float]]:
        """Return rewards per token of each item, and the recipe's metrics."""
        batch, outcome = self._batch(items)
        scored = self._model.score(batch, group_size, outcome)
        rows = scored.rewards.tolist()
        rewards = [row[: len(item.token_ids)] for row, item in zip(rows, items, strict=True)]
        return rewards, require_finite(scored.metrics)

    def update(self, items: Sequence[ProcessItem], group_size: int) -> dict[str, float]:
        """Train one pass over the items.

        Raises ``Internal`` when the loss is not finite, after which the state is unusable.
        """
        batch, outcome = self._batch(items)
        return require_finite(self._model.update(batch, outcome, group_size).metrics)

    def _batch(self, items: Sequence[ProcessItem]) -> tuple[Any, Any]:
        import torch

        from fathom.domain.process_reward.sequences import Sequences, pad

        for index, item in enumerate(items):
            # Checked here: an id outside the embeddings ends a CUDA process without a usable error.
            if max(item.token_ids) >= self.vocabulary or min(item.token_ids) < 0:
                raise InvalidField(f"items[{index}].token_ids", f"must be 0 to {self.vocabulary - 1:,}")
        padded = pad([item.token_ids for item in items], [item.mask for item in items])
        device = self._settings.device
        moved = Sequences(padded.input_ids.to(device), padded.attention_mask.to(device), padded.mask.to(device))
        return moved, torch.tensor([item.outcome for item in items], dtype=torch.float32, device=device)

    def state(self) -> bytes:
        """Serialise phi's weights and the optimiser's state."""
        import torch

        buffer = io.BytesIO()
        torch.save(self._model.state(), buffer)
        return buffer.getvalue()

    def load_state(self, data: bytes, key: str) -> None:
        """Load a state; raise ``CorruptData(key)`` for one of another model."""
        import torch

        try:
            # weights_only: a checkpoint is data and must not run code when it is read.
            state = torch.load(io.BytesIO(data), map_location=self._settings.device, weights_only=True)
            self._model.load_state(state)
            for group in self._model.optimizer.param_groups:  # the settings go before what was stored
                group |= {"lr": self._settings.lr, "weight_decay": self._settings.weight_decay}
        except Exception as error:  # the library raises what its parts raise; all of it means an unusable state
            raise CorruptData(key, f"{type(error).__name__}: {str(error)[:300]}") from error


def load_network(folder: Path, device: str) -> Any:
    """Load a causal language model in float32 from a folder; raise ``MissingExtra`` or ``CorruptData``."""
    try:
        import torch

        library: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", EXTRA) from error
    library.utils.logging.disable_progress_bar()
    try:
        # The library replaces functions of its own classes while it loads, so two loads must not overlap.
        with LOADING:
            network, report = library.AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=torch.float32, local_files_only=True, output_loading_info=True
            )
    except Exception as error:  # likewise
        raise CorruptData(str(folder), f"{type(error).__name__}: {str(error)[:300]}") from error
    # transformers fills missing tensors with random numbers and only warns.
    if report.get("missing_keys") or report.get("mismatched_keys"):
        raise CorruptData(str(folder), "its tensors do not fit its configuration")
    return network.to(device)


def require_finite(metrics: Any) -> dict[str, float]:
    """Return the metrics; raise ``Internal`` when one is not finite."""
    wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
    if wrong:
        raise Internal(f"{wrong[0]} of the process reward model is not finite")
    return dict(metrics)

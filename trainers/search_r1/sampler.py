"""In-process rollout worker: a causal language model that samples one turn for a batch of rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from fathom.domain.chat.tags import CLOSING
from fathom.trainers.batch import DataProto


class ModelSampler:
    """Sampler with a key-value cache; a row ends at eos, or at a closing tag that is a single token."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        ends = {tokenizer.eos_token_id}
        for tag in CLOSING:
            ids = tokenizer.encode(tag, add_special_tokens=False)
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                ends.add(ids[0])
        self._ends = torch.tensor(sorted(ends))

    @torch.no_grad()
    def generate_sequences(self, data: DataProto) -> DataProto:
        """Sample ``responses``, ``response_mask`` [B, T] int64 and ``rollout_log_probs`` [B, T] float32.

        T is the length of the longest response. Reads ``max_tokens``, ``temperature`` (0 is greedy), ``top_p``,
        ``seed`` and ``turn`` from ``meta_info``; the same seed, turn and rows give the same tokens. Log-probabilities
        are those of the temperature-scaled, untruncated distribution.
        """
        meta = data.meta_info
        temperature, top_p = float(meta.get("temperature", 1.0)), float(meta.get("top_p", 1.0))
        # A generator of its own: sampling leaves the learner's random state as it is, and a repeated step samples the
        # same.
        generator = torch.Generator().manual_seed(int(meta.get("seed", 0)) * 1_009 + int(meta.get("turn", 0)))
        ids, attention, positions = (data.tensor(n) for n in ("input_ids", "attention_mask", "position_ids"))
        alive = torch.ones(len(data), dtype=torch.bool)
        cache: Any = None
        columns: list[tuple[Tensor, Tensor, Tensor]] = []
        for _ in range(int(meta["max_tokens"])):
            output = self.model(
                input_ids=ids, attention_mask=attention, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache = output.past_key_values
            log_probs = (output.logits[:, -1].float() / (temperature or 1.0)).log_softmax(dim=-1)
            chosen = log_probs.argmax(dim=-1) if temperature == 0 else sample_ids(log_probs, top_p, generator)
            # Rows that have ended go through the model all the same, since the batch is one tensor; their tokens are
            # masked.
            chosen = torch.where(alive, chosen, self.tokenizer.pad_token_id)
            taken = log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)
            columns.append((chosen, alive.long(), torch.where(alive, taken, 0.0)))
            attention = torch.cat([attention, alive.long().unsqueeze(1)], dim=1)
            ids, positions = chosen.unsqueeze(1), positions[:, -1:] + alive.long().unsqueeze(1)
            alive = alive & ~torch.isin(chosen, self._ends)
            if not bool(alive.any()):
                break
        responses, mask, sampled = (torch.stack(part, dim=1) for part in zip(*columns, strict=True))
        return DataProto({"responses": responses, "response_mask": mask, "rollout_log_probs": sampled})

    def load(self, write: Callable[[Path], None]) -> None:
        """Load new weights; ``write`` fills a folder with a model's files."""
        with tempfile.TemporaryDirectory() as name:
            write(Path(name))
            state: dict[str, Tensor] = {}
            for path in sorted(Path(name).glob("*.safetensors")):
                state |= load_file(path)
            self.model.load_state_dict(state)


def sample_ids(log_probs: Tensor, top_p: float, generator: torch.Generator) -> Tensor:
    """Sample ids [B] from log-probabilities [B, V], restricted to the nucleus when ``top_p`` is below 1."""
    probabilities = log_probs.exp()
    if top_p < 1.0:
        ordered, places = probabilities.sort(dim=-1, descending=True)
        outside = ordered.cumsum(dim=-1) - ordered >= top_p
        probabilities = torch.zeros_like(probabilities).scatter(1, places, ordered.masked_fill(outside, 0.0))
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

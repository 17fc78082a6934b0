"""LoRA adapters that vLLM adds while it computes: checked against the base before the engine reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import CorruptData, FailedPrecondition
from fathom.domain.weights.manifest import ADAPTER_CONFIG
from fathom.services.policy.backends.transformers import adapters
from fathom.services.policy.backends.vllm.folder import Shapes
from fathom.services.policy.serving.downloads import BASE_POINTER

# Settings of PEFT that differ by layer, which vLLM reads over.
BY_LAYER = ("alpha_pattern", "rank_pattern")


@dataclass(frozen=True)
class Adapter:
    """An adapter that requests can name. ``number`` is never used again in one engine."""

    name: str
    number: int
    folder: Path


def find_base(folder: Path, configured: Path) -> Path:
    """Return the folder of the weights to which an adapter is added; ``configured`` where its manifest names none."""
    pointer = folder / BASE_POINTER
    return Path(pointer.read_text()) if pointer.is_file() else configured


def check_adapter(folder: Path, base: Shapes, largest_rank: int) -> None:
    """Raise ``CorruptData`` unless vLLM adds the adapter as PEFT would; ``FailedPrecondition`` for too large a rank."""
    added = adapters.read(folder)
    adapters.check(folder, added, base)
    config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
    if unequal := [name for name in BY_LAYER if config.get(name)]:
        raise CorruptData(str(folder), f"vllm serves adapters that are alike in all layers; not {', '.join(unequal)}")
    rank = max((pair.down.shape[0] for pair in added.values()), default=0)
    if rank > largest_rank:
        raise FailedPrecondition(
            f"the adapter has rank {rank}, the engine takes up to {largest_rank} (lora_rank)",
            metadata={"field": "lora_rank"},
        )

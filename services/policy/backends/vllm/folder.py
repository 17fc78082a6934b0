"""Metadata of a model folder without its weights: tokenizer, window, shapes. Blocking; call in a thread."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData
from fathom.domain.weights.header import check_header
from fathom.services.policy.backends.transformers.tokenizer import ChatTokenizer
from fathom.services.policy.backends.vllm.core import read_end_ids

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class ModelFolder:
    """Metadata of a folder that an engine can serve."""

    folder: Path
    tokenizer: ChatTokenizer
    window_tokens: int
    shapes: Shapes


def open_folder(folder: Path, window_tokens: int) -> ModelFolder:
    """Read everything but the weights; raise ``CorruptData`` when a file is missing or broken."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptData(str(folder), f"config.json cannot be read: {error}") from error
    window = min(window_tokens, int(config.get("max_position_embeddings") or window_tokens))
    tokenizer = ChatTokenizer.from_folder(folder, read_end_ids(folder))
    if tokenizer.size > int(config.get("vocab_size") or tokenizer.size):
        raise CorruptData(str(folder), f"the tokenizer has {tokenizer.size} ids, the model only {config['vocab_size']}")
    return ModelFolder(folder, tokenizer, window, read_shapes(folder))


def read_shapes(folder: Path) -> Shapes:
    """Return the shapes of all tensors by name, from the headers of the safetensors files."""
    from safetensors import SafetensorError, safe_open

    shapes: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            check_header(path)
            with safe_open(str(path), framework="pt") as file:
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CorruptData(str(path), f"{type(error).__name__}: {error}") from error
    if not shapes:
        raise CorruptData(str(folder), "holds no *.safetensors")
    return shapes


def check_successor(served: ModelFolder, new: ModelFolder) -> None:
    """Raise ``CorruptData`` unless the new weights fit into the running engine."""
    # The engine loads in place and without a way back: whatever can be compared is compared before.
    differing = sorted(
        name for name in served.shapes.keys() | new.shapes.keys() if served.shapes.get(name) != new.shapes.get(name)
    )
    if differing:
        raise CorruptData(str(new.folder), f"tensors do not fit those being served: {', '.join(differing)[:300]}")
    if (served.tokenizer.size, served.window_tokens) != (new.tokenizer.size, new.window_tokens):
        raise CorruptData(str(new.folder), "tokenizer or window differ from those being served")

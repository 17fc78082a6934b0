"""Loading of model folders. Blocking; call in a thread."""

from __future__ import annotations

import importlib
import importlib.util
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData
from fathom.domain.encoders.loading import LOADING
from fathom.domain.weights.header import check_header
from fathom.services.policy.backends.transformers.tokenizer import ChatTokenizer

if TYPE_CHECKING:
    import torch

    from fathom.services.policy.backends.transformers.grammar import Grammars


@dataclass(frozen=True)
class LoadedNetwork:
    """A loaded model: network in eval mode, tokenizer, window in tokens."""

    network: torch.nn.Module
    tokenizer: ChatTokenizer
    window_tokens: int

    @cached_property
    def grammars(self) -> Grammars:
        """Return the grammar factory of this tokenizer; raise ``MissingExtra`` when llguidance is not installed."""
        from fathom.services.policy.backends.transformers.grammar import Grammars

        embeddings: Any = self.network.get_input_embeddings()  # type: ignore[operator]
        return self.tokenizer.grammars(Grammars, embeddings.weight.shape[0])


def load_folder(folder: Path, window_tokens: int, device: str = "cpu", dtype: str = "float32") -> LoadedNetwork:
    """Load a Hugging Face folder: config.json, *.safetensors, tokenizer.json, tokenizer_config.json.

    The window is the smaller of ``window_tokens`` and the model's own. Raises ``CorruptData`` when a file is missing or
    broken, or when the tensors are not exactly those that the configuration defines.
    """
    import torch

    library: Any = importlib.import_module("transformers")
    # Progress bars would be written into the service's log.
    library.utils.logging.disable_progress_bar()
    for path in folder.glob("*.safetensors"):
        check_header(path)
    try:
        with LOADING:
            network, report = library.AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=getattr(torch, dtype), local_files_only=True, output_loading_info=True
            )
    except Exception as error:  # the library raises what its parts raise; all of it means an unusable folder
        raise CorruptData(str(folder), f"{type(error).__name__}: {error}") from error
    # The library initialises missing tensors at random and only warns.
    wrong = {kind: sorted(map(str, report.get(kind, ()))) for kind in ("missing_keys", "mismatched_keys")}
    if any(wrong.values()):
        raise CorruptData(str(folder), f"tensors do not fit the configuration: {json.dumps(wrong)[:300]}")
    network.to(device).eval()
    tokenizer = ChatTokenizer.from_folder(folder, read_end_ids(network))
    rows = network.get_input_embeddings().weight.shape[0]
    # Ids above the embedding's rows would crash the first request that has one; the reverse is padding of the
    # vocabulary.
    if tokenizer.size > rows:
        raise CorruptData(str(folder), f"the tokenizer has {tokenizer.size} ids, the model only {rows}")
    window = getattr(network.config, "max_position_embeddings", None) or window_tokens
    return LoadedNetwork(network, tokenizer, min(window_tokens, int(window)))


def read_end_ids(network: Any) -> frozenset[int]:
    """Return the token ids that end a turn, from the generation configuration."""
    ids = getattr(network.generation_config, "eos_token_id", None)
    # Chat models list several: the end of a turn and the end of a text.
    listed = ids if isinstance(ids, list) else [ids]
    return frozenset(int(item) for item in listed if item is not None)

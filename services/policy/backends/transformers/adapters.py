"""LoRA adapters in PEFT's format: loading, validation, and merging into base weights.

W' = W + (alpha / r) B A, or alpha / sqrt(r) for rank-stabilised ones (LoRA, arXiv 2106.09685; rsLoRA, 2312.03732).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData
from fathom.domain.weights.header import check_header
from fathom.domain.weights.manifest import ADAPTER_CONFIG

if TYPE_CHECKING:
    import torch

WEIGHTS = "adapter_model.safetensors"
# PEFT's tensor names: base_model.model.<module>.lora_A.weight, in newer versions with the adapter's name before
# weight.
NAME = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
# Values of PEFT's settings that mean plain LoRA on linear layers. Anything else (DoRA, trained biases, whole modules)
# would be merged wrongly without an error.
PLAIN: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "modules_to_save": (None, []),
    "target_parameters": (None, []),
}


@dataclass(frozen=True)
class LowRank:
    """Update of one weight [out, in]: ``scale`` times ``up`` [out, r] times ``down`` [r, in]."""

    down: torch.Tensor
    up: torch.Tensor
    scale: float

    def added_to(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the sum of ``weight`` [out, in] and the update as a new float32 tensor."""
        import torch

        # In float32: a bfloat16 sum would round small updates away. The base is always the published one, since
        # subtracting an earlier adapter would leave its rounding errors.
        return torch.addmm(weight.float(), self.up.float(), self.down.float(), alpha=self.scale)


def is_adapter(folder: Path) -> bool:
    """Return whether the folder holds an adapter saved by PEFT."""
    return (folder / ADAPTER_CONFIG).is_file()


def read(folder: Path) -> dict[str, LowRank]:
    """Return an adapter's updates by weight name; raise ``CorruptData`` unless it is plain LoRA on linear layers."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
        check_header(folder / WEIGHTS)
        stored = load_file(str(folder / WEIGHTS))
        wrong = [name for name, allowed in PLAIN.items() if config.get(name) not in allowed]
        if wrong:
            raise CorruptData(str(folder), f"only plain LoRA on linear layers is served; not {', '.join(wrong)}")
        alpha = float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise CorruptData(str(folder), f"is not a PEFT adapter: {type(error).__name__}: {error}") from error
    sides: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in stored.items():
        found = NAME.fullmatch(name)
        if found is None or tensor.dim() != 2 or not tensor.is_floating_point():
            raise CorruptData(str(folder), f"tensor {name} is not part of a low-rank pair")
        sides.setdefault(found["module"], {})[found["side"]] = tensor
    return {f"{module}.weight": build_pair(folder, module, found, config, alpha) for module, found in sides.items()}


def build_pair(
    folder: Path, module: str, sides: Mapping[str, torch.Tensor], config: Mapping[str, Any], alpha: float
) -> LowRank:
    """Return the update of one layer; raise ``CorruptData`` when a side is missing or the ranks differ."""
    if set(sides) != {"A", "B"} or sides["A"].shape[0] != sides["B"].shape[1]:
        raise CorruptData(str(folder), f"the low-rank pair of {module} is not whole")
    rank = sides["A"].shape[0]
    # PEFT takes the first pattern that matches the end of a module's name, at a dot.
    for pattern, other in (config.get("alpha_pattern") or {}).items():
        if re.match(rf"(?:.*\.)?(?:{pattern})$", module):
            alpha = float(other)
            break
    return LowRank(sides["A"], sides["B"], alpha / (math.sqrt(rank) if config.get("use_rslora") else rank))


def check(folder: Path, added: Mapping[str, LowRank], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ``CorruptData`` unless every update belongs to a weight and has its shape."""
    for name, low_rank in added.items():
        if name not in shapes:
            raise CorruptData(str(folder), f"the model has no weight {name}")
        shape, wanted = (low_rank.up.shape[0], low_rank.down.shape[1]), shapes[name]
        if shape != wanted:
            raise CorruptData(str(folder), f"the pair of {name} makes {list(shape)}, not {list(wanted)}")

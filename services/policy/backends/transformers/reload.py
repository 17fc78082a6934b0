"""In-process weight updates: verified by name, shape and dtype, then read into a spare copy of the tensors.

The network being sampled is never modified: its successor shares its structure and has its own tensors. Blocking;
call in a dedicated thread.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.errors import CorruptData
from fathom.core.ids import sha256
from fathom.domain.weights.header import check_header
from fathom.domain.weights.manifest import MANIFEST_NAME
from fathom.services.policy.backends.transformers import adapters
from fathom.services.policy.backends.transformers.adapters import LowRank
from fathom.services.policy.backends.transformers.loading import LoadedNetwork
from fathom.services.policy.serving.downloads import BASE_POINTER

if TYPE_CHECKING:
    import torch

# Fields of config.json that the writer of a checkpoint fills in and that change nothing in the network.
VOLATILE = ("transformers_version", "dtype", "torch_dtype", "_name_or_path")
WEIGHTS = ".safetensors"
INDEX = ".safetensors.index.json"


class Reloader:
    """Loader of versions of one model; reuses the tensors of versions no longer used.

    ``whole`` loads a folder from scratch; ``configured`` returns the base of adapters whose manifest names none.
    """

    def __init__(self, whole: Callable[[Path], LoadedNetwork], configured: Callable[[], Path]) -> None:
        self._whole, self._configured = whole, configured
        self._lock = threading.Lock()
        # Tensors of the version before the served one, which the next version overwrites: a training that publishes
        # every minute allocates nothing. The lock is for finalizers, which run in any thread.
        self._spare: list[dict[str, torch.Tensor]] = []
        self._kinds: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def load(self, folder: Path, like: LoadedNetwork | None = None) -> LoadedNetwork:
        """Load the version in ``folder``.

        Fast when only its weights differ from those of ``like``, which is never modified. Raises ``CorruptData`` when a
        tensor is missing, unknown, or has a shape or dtype other than the configuration defines.
        """
        if not adapters.is_adapter(folder):
            return self._load(folder, like, {})
        pointer = folder / BASE_POINTER
        base = Path(pointer.read_text()) if pointer.is_file() else self._configured()
        added = adapters.read(folder)
        # An adapter changes few weights, but all come from its base: shapes are checked against that, not against what
        # serves.
        if like is None or compute_signature(base) != self._kinds.get(like.network):
            like = self._load(base, None, {})
        own = list_own_tensors(like.network)
        adapters.check(folder, added, {name: tuple(tensor.shape) for name, tensor in own.items()})
        return self._load(base, like, added)

    def _load(self, folder: Path, like: LoadedNetwork | None, added: Mapping[str, LowRank]) -> LoadedNetwork:
        kind = compute_signature(folder)
        if like is None or kind != self._kinds.get(like.network):
            return self._register(self._whole(folder), kind)
        with ExitStack() as files:
            tensors = open_tensors(folder, files)
            wanted = list_own_tensors(like.network)
            if not wanted.keys() <= tensors.keys():
                # The library may know these names by another spelling; and if not, it says what is wrong.
                loaded = self._register(self._whole(folder), kind)
                return merge_adapter(loaded, added)
            # Against all names, since a file may also hold the second name of a tied weight.
            check_tensors(folder, tensors, like.network.state_dict())
            network = self._successor(like.network, wanted, tensors, added)
        return self._register(replace(like, network=network), kind)

    def _register(self, loaded: LoadedNetwork, kind: str) -> LoadedNetwork:
        """Register the model so that its tensors are reused once nothing refers to the network."""
        self._kinds[loaded.network] = kind
        tensors = {name: tensor.data for name, tensor in list_own_tensors(loaded.network).items()}
        # Running generations hold their network: its tensors are free only when the last of them has ended, which
        # nothing reports.
        weakref.finalize(loaded.network, self._give, tensors)
        return loaded

    def _successor(
        self,
        network: Any,
        wanted: Mapping[str, torch.Tensor],
        tensors: Mapping[str, Stored],
        added: Mapping[str, LowRank],
    ) -> Any:
        import torch

        filled = self._take(wanted)
        # Tensors made in inference mode cannot be written to outside of it, and these are written to again as spares.
        with torch.inference_mode(False), torch.no_grad():
            for name, target in filled.items():
                source = tensors[name].read()
                target.copy_(added[name].added_to(source) if name in added else source)
        return build_twin(network, wanted, filled)

    def _take(self, wanted: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        import torch

        with self._lock:
            for index, spare in enumerate(self._spare):
                if all(spare[name].shape == tensor.shape for name, tensor in wanted.items()):
                    return self._spare.pop(index)
        return {name: torch.empty_like(tensor) for name, tensor in wanted.items()}

    def _give(self, tensors: dict[str, torch.Tensor]) -> None:
        with self._lock:
            self._spare = [tensors]  # one is enough: versions come one at a time


def merge_adapter(loaded: LoadedNetwork, added: Mapping[str, LowRank]) -> LoadedNetwork:
    """Merge an adapter in place; only for a network not in use yet."""
    import torch

    with torch.no_grad():
        for name, tensor in list_own_tensors(loaded.network).items():
            if name in added:
                tensor.copy_(added[name].added_to(tensor))
    return loaded


class Stored:
    """A tensor of a file: shape and dtype from the header; values are read on demand."""

    def __init__(self, handle: Any, name: str) -> None:
        self._handle, self._name = handle, name
        described = handle.get_slice(name)
        self.shape, self.dtype = tuple(described.get_shape()), str(described.get_dtype())

    def read(self) -> torch.Tensor:
        """Return the values, memory-mapped from the file."""
        tensor: torch.Tensor = self._handle.get_tensor(self._name)
        return tensor


def open_tensors(folder: Path, files: ExitStack) -> dict[str, Stored]:
    """Return all tensors of a folder's weight files by name; raise ``CorruptData`` for an unreadable file."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Stored] = {}
    for path in sorted(folder.glob(f"*{WEIGHTS}")):
        try:
            check_header(path)
            handle = files.enter_context(safe_open(str(path), framework="pt"))
            found |= {name: Stored(handle, name) for name in handle.keys()}  # noqa: SIM118 - no mapping
        except (SafetensorError, OSError) as error:
            raise CorruptData(str(path), f"{type(error).__name__}: {error}") from error
    return found


def check_tensors(folder: Path, tensors: Mapping[str, Stored], wanted: Mapping[str, torch.Tensor]) -> None:
    """Raise ``CorruptData`` unless every tensor is known, has the wanted shape and holds floating-point numbers."""
    wrong = sorted(set(tensors) - set(wanted))
    if wrong:
        raise CorruptData(str(folder), f"tensors that the configuration does not know: {json.dumps(wrong)[:300]}")
    for name, stored in tensors.items():
        if stored.shape != tuple(wanted[name].shape):
            shapes = f"{list(stored.shape)}, not {list(wanted[name].shape)}"
            raise CorruptData(str(folder), f"tensor {name} has shape {shapes}")
        if stored.dtype not in ("F32", "F16", "BF16", "F64"):
            raise CorruptData(str(folder), f"tensor {name} has dtype {stored.dtype}, which is not floating-point")


def list_own_tensors(network: Any) -> dict[str, torch.Tensor]:
    """Return parameters and saved buffers by name; tied tensors appear once, under their first name."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in network.state_dict(keep_vars=True).items():
        # Tied weights (embedding and output of small models) are one tensor under two names, and files hold it once.
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found


def build_twin(network: Any, old: Mapping[str, torch.Tensor], new: Mapping[str, torch.Tensor]) -> Any:
    """Return a network of the same modules with tensors ``new`` in place of ``old``; nothing else is copied."""
    import torch

    replaced: dict[int, Any] = {}
    for name, tensor in old.items():
        parameter = isinstance(tensor, torch.nn.Parameter)
        replaced[id(tensor)] = torch.nn.Parameter(new[name], requires_grad=False) if parameter else new[name]
    # Other state of the modules (configurations, functions, unsaved buffers) does not change during computation, so
    # both networks share it. A deep copy of it would take as long as loading the weights.
    made = copy_module(network, replaced, {})
    made.eval()
    return made


def copy_module(module: Any, replaced: Mapping[int, Any], made: dict[int, Any]) -> Any:
    """Copy a module and its children with replaced tensors; a shared module stays shared."""
    if id(module) in made:
        return made[id(module)]
    # Without __init__, which would allocate and initialise all weights anew.
    copied = made[id(module)] = module.__class__.__new__(module.__class__)
    copied.__dict__.update(module.__dict__)
    for kind in ("_parameters", "_buffers"):
        own = getattr(module, kind)
        copied.__dict__[kind] = {name: replaced.get(id(tensor), tensor) for name, tensor in own.items()}
    children = {name: child and copy_module(child, replaced, made) for name, child in module._modules.items()}
    copied.__dict__["_modules"] = children
    return copied


def compute_signature(folder: Path) -> str:
    """Return a hash that is equal for folders that differ only in the values of their weights."""
    parts = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() or path.name.endswith((WEIGHTS, INDEX)) or path.name in (MANIFEST_NAME, BASE_POINTER):
            continue
        # The tokenizer's files count: a version that changes them needs a tokenizer of its own.
        data = path.read_bytes()
        parts.append(f"{path.name}:{sha256(normalize_settings(data) if path.name.endswith('config.json') else data)}")
    return sha256("\n".join(parts).encode())


def normalize_settings(data: bytes) -> bytes:
    """Return a configuration as JSON without the fields that do not change the model."""
    try:
        parsed = json.loads(data)
    except ValueError:
        return data
    if not isinstance(parsed, dict):
        return data
    return json.dumps({key: value for key, value in parsed.items() if key not in VOLATILE}, sort_keys=True).encode()

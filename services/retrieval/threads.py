"""How the numeric libraries use processors. Called before they are loaded: OpenMP reads its settings once."""

from __future__ import annotations

import os

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""Threads that have nothing to do sleep. By default they spin, and PyTorch's and FAISS' pools, which take turns,
then take each other's processors away (measured on two shared cores: 530 ms an encoding instead of 15)."""


def settle() -> None:
    """Says so to libraries that are loaded later; what the environment says already stays."""
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)

"""Thread settings of the numeric libraries; set before they are loaded, since OpenMP reads them once."""

from __future__ import annotations

import os

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""Idle threads sleep instead of spinning.

By default they spin, and PyTorch's and FAISS' pools, which alternate, then take each other's processors away (measured
on two shared cores: 530 ms per encoding instead of 15).
"""


def settle() -> None:
    """Set the variables for libraries loaded later, keeping values already in the environment."""
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)

"""Several NumPy arrays in one file, one after the other as NumPy writes them, opened memory-mapped."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fathom.core.errors import CorruptData


def write_arrays(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays; those of wide numbers should come first, so that all of them begin at a multiple of their width."""
    with path.open("wb") as file:
        for array in arrays:
            npy.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)


def map_arrays(path: Path, count: int) -> list[NDArray[Any]]:
    """Return the ``count`` arrays of a file, read-only views of its map; raise ``CorruptData`` naming the file."""
    try:
        with path.open("rb") as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays = []
            for _ in range(count):
                npy.read_magic(file)
                shape, _, kind = npy.read_array_header_1_0(file)
                if kind.hasobject:
                    raise ValueError("it holds objects")
                size = int(np.prod(shape, dtype=np.int64))
                # frombuffer raises when the file is too short for what the header claims.
                arrays.append(np.frombuffer(held, kind, size, file.tell()).reshape(shape))
                file.seek(size * kind.itemsize, 1)
            return arrays
    except (OSError, ValueError, EOFError) as error:
        raise CorruptData(str(path), f"{type(error).__name__} {error}") from error

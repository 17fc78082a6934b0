"""Find data that are not part of the repository: ``shared/data`` beside it or above it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def beside(name: str = "") -> Path:
    """The folder of a data set. It need not exist: ask ``is_dir`` and say that it was left out."""
    places = [parent / "shared" / "data" for parent in ROOT.parents]
    return next((place for place in places if place.is_dir()), places[0]) / name

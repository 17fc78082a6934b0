"""Episodes by name, whose days are a convention with a source: "the Great Recession"."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

EPISODES = Path(__file__).with_name("episodes.toml")


@dataclass(frozen=True)
class Episode:
    """An episode with its names; ``known_by`` is the year that people name it by, 0 for none."""

    start: date
    end: date
    source: str
    names: tuple[str, ...] = ()
    known_by: int = 0
    is_recession: bool = False


@cache
def load_episodes() -> Mapping[str, Episode]:
    known = tomllib.loads(EPISODES.read_text(encoding="utf-8"))
    return {key: Episode(**row | {"names": tuple(row.get("names", ()))}) for key, row in known.items()}

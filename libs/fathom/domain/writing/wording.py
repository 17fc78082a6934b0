"""Texts in English and Chinese, of this package and of others that have a ``texts.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def load_texts(package: str = "fathom.domain.writing") -> Mapping[str, Any]:
    """Return the texts of a package."""
    loaded: Mapping[str, Any] = yaml.safe_load(resources.files(package).joinpath("texts.yaml").read_text("utf-8"))
    return loaded


def say(name: str, is_zh: bool, *values: object, texts: Mapping[str, Any] | None = None) -> str:
    """Return a text of an answer in one of the languages, of this package by default."""
    return str((texts or load_texts())["answer"][name][is_zh]).format(*values)


def join(parts: Iterable[str], is_zh: bool) -> str:
    """Return distinct texts as one."""
    return ("；" if is_zh else "; ").join(dict.fromkeys(parts))


def cite(number: object) -> str:
    """Return the citation of a material; "" for none."""
    return f" [{number}]" if isinstance(number, int) and number else ""

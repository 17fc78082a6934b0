"""An environment that has Fathom's base requirements and nothing else, made of links to what is installed here."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def base_requirements() -> list[Requirement]:
    """Return what a plain ``pip install fathom`` asks for."""
    return [Requirement(text) for text in PROJECT["dependencies"]]


def installed_closure(requirements: list[Requirement]) -> Iterator[Distribution]:
    """Return the distributions that requirements bring to this platform, those of their own requirements included."""
    pending, seen = list(requirements), set[str]()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        found = distribution(requirement.name)
        pending += [Requirement(text) for text in found.requires or ()]
        yield found


def make_bare_environment(folder: Path) -> list[str]:
    """Link the base requirements' files below ``folder``; return the start of a command line for Python in there."""
    for found in installed_closure(base_requirements()):
        for file in found.files or ():
            if ".." in file.parts or "__pycache__" in file.parts:  # scripts, and bytecode that names other paths
                continue
            link = folder / file
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(str(found.locate_file(file))))
    start = f"import runpy, sys; sys.path += [{str(folder)!r}, {str(ROOT / 'libs')!r}]; del sys.argv[0]; "
    run = "runpy.run_path(sys.argv[0], run_name='__main__') if sys.argv[0].endswith('.py') else exec(sys.argv[0])"
    return [sys.executable, "-I", "-S", "-B", "-c", start + run]

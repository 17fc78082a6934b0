"""Import of the whole standard library, for sessions whose user cannot read it.

Python may be installed below a folder that only root can enter, and at levels without a mount namespace a session of
its own user then finds on the disk what lies elsewhere, as a virtual environment may, but not what that imports. Within
the fork server it costs a quarter of a second and 30 MiB, once, which all sessions share.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Modules that open windows or pages, build environments, or test the library itself; cells have no use for them.
LEFT_OUT = frozenset(
    {
        "__main__", "antigravity", "distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "this",
        "tkinter", "turtle", "turtledemo", "venv",
    }
)  # fmt: skip


def is_readable_for_all() -> bool:
    """Return whether every user of the machine can read the standard library."""
    place = Path(os.__file__).resolve()
    folders = all(parent.stat().st_mode & stat.S_IXOTH for parent in place.parents)
    return folders and bool(place.stat().st_mode & stat.S_IROTH)


def import_all() -> None:
    """Import every module of the standard library that this platform has."""
    folder = os.path.dirname(os.__file__)
    with warnings.catch_warnings():
        # Some say that a later version will not have them.
        warnings.simplefilter("ignore")
        for name in list_modules([folder, f"{folder}/lib-dynload"]):
            with suppress(Exception):  # modules of other platforms raise what they like
                importlib.import_module(name)
        # openpyxl imports it where it is installed. Its own import drops the library's module and loads it once more,
        # which no session could do afterwards.
        with suppress(ImportError):
            importlib.import_module("defusedxml.ElementTree")


def list_modules(folders: list[str], prefix: str = "") -> Iterator[str]:
    """Yield the names of the library's modules below these folders, packages before what they contain."""
    for module in pkgutil.iter_modules(folders, prefix):
        root = module.name.partition(".")[0]
        if root not in sys.stdlib_module_names or root in LEFT_OUT or module.name.endswith(".__main__"):
            continue
        yield module.name
        if module.ispkg:
            inner = [os.path.join(folder, module.name.rpartition(".")[2]) for folder in folders]
            yield from list_modules(inner, f"{module.name}.")

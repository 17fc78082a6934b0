"""``python -m tests.bench [name …]``: runs the named benchmarks, or all of them.

``python -m tests.bench NAME FILE`` gives one benchmark a file, or a folder that ends with a slash, for those that take
one (router, rewriting, chart_gallery).

A benchmark is a module below this package with a coroutine function ``run``; its name is the module's own, without
those of the folders above it.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

PACKAGE = "tests.bench"  # type: ignore[name-defined]
Run = Callable[..., Coroutine[Any, Any, None]]


def find_modules() -> dict[str, list[str]]:
    """Return the dotted names of all modules below this package, by the last part of the name."""
    modules: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], f"{PACKAGE}."):
        name = module.name.rpartition(".")[2]
        if name != "__main__":
            modules.setdefault(name, []).append(module.name)
    return modules


def load_benches(names: Collection[str]) -> dict[str, Run]:
    """Return the function ``run`` of those names that are benchmarks."""
    benches: dict[str, Run] = {}
    for name in names:
        for dotted in find_modules().get(name, ()):
            run = getattr(importlib.import_module(dotted), "run", None)
            if not asyncio.iscoroutinefunction(run):
                continue
            if name in benches:
                raise ValueError(f"two benchmarks are called {name}: the second is {dotted}")
            benches[name] = run
    return benches


def keep_bytecode() -> None:
    """Let this process and those that it starts keep what they compile, as the Makefile does for its recipes.

    With somebody's setting for containers each of a bench's processes compiles all packages anew, for which some have
    no time: a node of Ray ends when its agent takes more than 15 s to start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def main(names: list[str]) -> int:
    keep_bytecode()
    if len(names) == 2 and (names[1].endswith("/") or Path(names[1]).is_file()):
        bench = load_benches(names[:1]).get(names[0])
        if bench is None or not inspect.signature(bench).parameters:
            print(f"{names[0]} is no benchmark that takes a file or a folder")
            return 2
        asyncio.run(bench(names[1]))
        return 0
    benches = load_benches(names or find_modules())
    unknown = sorted(set(names) - set(benches))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(load_benches(find_modules()))}")
        return 2
    for name, run in benches.items():
        print(f"\n== {name}")
        asyncio.run(run())
    return 0


if __name__ == "__main__":  # engines start processes that import this module again
    raise SystemExit(main(sys.argv[1:]))

"""``python -m tests.bench [name …]``: runs the named benchmarks, or all of them.

A benchmark is a module of this package with a coroutine function ``run``.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    modules = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found = {name: importlib.import_module(f"tests.bench.{name}") for name in modules if name != "__main__"}
    benches = {name: module.run for name, module in found.items() if hasattr(module, "run")}
    unknown = sorted(set(names) - set(benches))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(benches)}")
        return 2
    for name in names or list(benches):
        print(f"\n== {name}")
        asyncio.run(benches[name]())
    return 0


if __name__ == "__main__":  # engines start processes that import this module again
    raise SystemExit(main(sys.argv[1:]))

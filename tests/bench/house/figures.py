"""The figures of one tree, each with the places that it counts."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.house import copies, imports, names
from tests.bench.house.source import PRODUCT, TESTS, Search, Source, read_sources

LONGEST, MOST_COMPLEX, MOST_FILES = 60, 15, 15
COMMENTS = "lines of comment alone per 100"
EVERYWHERE: Mapping[str, Search] = {
    "requirement ids": names.find_requirement_ids,
    "docstrings that are noun clauses": names.find_noun_clauses,
}
IN_PRODUCT: Mapping[str, Search] = {
    "broad excepts without a comment": names.find_unexplained_excepts,
    "long patterns without a comment": names.find_unexplained_patterns,
    "retry loops": copies.find_retries,
    "LRU caches": copies.find_lru,
    "single flights": copies.find_single_flights,
    "page tokens": copies.find_page_tokens,
    "tables of Chinese digits": copies.find_numerals,
    "tables of months": copies.find_months,
    "tests for Chinese characters": copies.find_scripts,
    "tables of stop words": copies.find_stop_words,
}


@dataclass(frozen=True)
class Report:
    """Figures by name, and the places behind those that count places."""

    figures: Mapping[str, float]
    places: Mapping[str, list[str]]


def measure(root: Path) -> Report:
    """Return the figures of the tree below ``root``, without running anything of it."""
    # Millions of nodes are made and none is dropped: walking all of them again and again takes longer than parsing.
    gc.disable()
    try:
        return count(root)
    finally:
        gc.enable()


def count(root: Path) -> Report:
    """Return the same with the garbage collector as it is."""
    rooms = {"product": read_sources(root, PRODUCT), "tests": read_sources(root, TESTS)}
    figures: dict[str, float] = {}
    places: dict[str, list[str]] = {}
    for room, sources in rooms.items():
        figures |= {f"{name}, {room}": value for name, value in count_lines(sources).items()}
        found = {name: find_all(search, sources) for name, search in EVERYWHERE.items()}
        found["participle names"] = find_all(names.find_participles, sources)
        found[f"functions over {LONGEST} lines"] = list(find_long_functions(sources))
        found["folders over 15 files"] = list(find_full_folders(sources))
        places |= {f"{name}, {room}": value for name, value in found.items()}
    figures[f"{COMMENTS}, product and tests"] = count_lines([*rooms["product"], *rooms["tests"]])[COMMENTS]
    product = rooms["product"]
    graph = imports.build_graph(product)
    places |= {
        "docstrings not imperative (D401)": run_ruff(root, "D401"),
        f"complexity over {MOST_COMPLEX} (C901)": run_ruff(root, "C901"),
        "imports from libs upwards": list(imports.find_upward_imports(product)),
        "circles of sibling packages": [" ⇄ ".join(circle) for circle in imports.find_package_circles(graph)],
        "circles of modules": [" ⇄ ".join(circle) for circle in imports.find_circles(graph)],
    }
    places |= {name: find_all(search, product) for name, search in IN_PRODUCT.items()}
    return Report(figures | {name: len(value) for name, value in places.items()}, places)


def find_all(search: Search, sources: Iterable[Source]) -> list[str]:
    """Return what a search finds in all files."""
    return [place for source in sources for place in search(source)]


def count_lines(sources: list[Source]) -> dict[str, float]:
    """Return sizes, and how many lines of a hundred have a comment for readers."""
    lines = sum(source.text.count("\n") for source in sources)
    comments = sum(len(source.comments) for source in sources)
    own_line = sum(sum(source.comments.values()) for source in sources)
    folders = Counter(source.path.rpartition("/")[0] for source in sources)
    return {
        "files": len(sources),
        "lines": lines,
        "functions": sum(len(source.functions) for source in sources),
        "most files in a folder": max(folders.values(), default=0),
        "lines with a comment per 100": 100 * comments / max(1, lines),
        COMMENTS: 100 * own_line / max(1, lines),
    }


def find_full_folders(sources: Iterable[Source]) -> Iterator[str]:
    """Yield folders in which more than 15 files lie flat; ``__init__.py`` does not count."""
    folders = Counter(path for path, _, name in (s.path.rpartition("/") for s in sources) if name != "__init__.py")
    yield from (f"{path}: {count} files" for path, count in sorted(folders.items()) if count > MOST_FILES)


def find_long_functions(sources: Iterable[Source]) -> Iterator[str]:
    for source in sources:
        for name, node in source.functions:
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST:
                yield f"{source.path}:{node.lineno} {name}: {length} lines"


def run_ruff(root: Path, rule: str) -> list[str]:
    """Return what ruff finds in the product by one rule, with no settings but ours and no ``noqa``."""
    rooms = [str(root / room) for room in PRODUCT if (root / room).is_dir()]
    if not rooms:  # without paths ruff would look at the current folder
        raise FileNotFoundError(f"{root} has none of the folders {', '.join(PRODUCT)}")
    options = ["--isolated", "--no-cache", "--ignore-noqa", "--exit-zero", "--output-format", "json", "--select", rule]
    settings = [f"lint.mccabe.max-complexity={MOST_COMPLEX}", f"extend-exclude=['{root}/libs/fathom/api']"]
    options += [part for setting in settings for part in ("--config", setting)]
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run([str(ruff), "check", *options, *rooms], capture_output=True, text=True, check=True)
    return sorted(
        f"{Path(found['filename']).relative_to(root)}:{found['location']['row']} {found['message']}"
        for found in json.loads(done.stdout)
    )

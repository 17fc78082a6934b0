"""``fathom data frameworks``: lists the analysis frameworks, and validates them before a service reads them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.datafetch.frameworks import Framework


def validate(paths: Sequence[Path], tables: Path) -> int:
    """Validate framework files or folders of them; print one line per problem and return the number of invalid files.

    Indicator ids are checked too if the tables are built; otherwise a message says that they are not.
    """
    from services.datafetch.frameworks import BUNDLED, InvalidFramework, load_frameworks, read_framework

    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    if not files:
        print(f"no *.yaml files in {', '.join(map(str, paths))}", file=sys.stderr)
        return 1
    known = stored_indicators(tables)
    if not known:
        print(f"indicator ids are not checked: cannot read the tables in {tables}", file=sys.stderr)
    bundled, wrong = load_frameworks(BUNDLED).topics, 0
    for file in files:
        try:
            framework = read_framework(file)
        except InvalidFramework as error:
            print(error.message, file=sys.stderr)
            wrong += 1
            continue
        problems = unknown_ids(framework, known)
        if framework.topic in bundled and file.resolve().parent != BUNDLED:
            problems.append(f"topic: {framework.topic!r} is one of the package's own topics")
        for problem in problems:
            print(f"{file}: {problem}", file=sys.stderr)
        wrong += bool(problems)
        if not problems:
            print(f"{file}: {summary(framework)}")
    return wrong


def show(extra: Path | None) -> None:
    """Print one line per framework."""
    from services.datafetch.frameworks import BUNDLED, load_frameworks

    library = load_frameworks(*([BUNDLED] if extra is None else [BUNDLED, extra]))
    for framework in library.topics.values():
        print(f"{framework.topic:<18}{framework.zh:<8}\t{summary(framework)}")


def summary(framework: Framework) -> str:
    """Describe the contents of a framework in one line."""
    from services.datafetch.frameworks.model import LEVELS, walk

    places = list(walk(framework.nodes, LEVELS))
    levels = Counter(place.level for place in places)
    tools = Counter(place.node.tool for place in places if place.level == LEVELS)
    with_ids = sum(bool(place.node.ids) for place in places if place.level == LEVELS)
    found = ", ".join(f"{n} by {tool}" for tool, n in sorted(tools.items()))
    return f"{levels[1]} dimensions, {levels[2]} aspects, {levels[3]} indicators ({found}; {with_ids} with ids)"


def unknown_ids(framework: Framework, known: frozenset[str]) -> list[str]:
    """Return a problem for each indicator id that the tables do not have, with the nearest ones."""
    import difflib

    from services.datafetch.frameworks.model import LEVELS, walk

    return [
        f"{' / '.join(place.path)}: ids: {ident!r} is no indicator of the tables"
        + (f"; near: {', '.join(near)}" if (near := difflib.get_close_matches(ident, known)) else "")
        for place in walk(framework.nodes, LEVELS)
        for ident in place.node.ids
        if known and ident not in known
    ]


def stored_indicators(tables: Path) -> frozenset[str]:
    """Return the ids of the built tables; empty without tables, or without duckdb to read them."""
    if not (tables / "series.parquet").is_file():
        return frozenset()
    try:
        import duckdb
    except ImportError:
        return frozenset()
    sql = "select distinct indicator from read_parquet(?)"
    rows = duckdb.connect(":memory:").execute(sql, [str(tables / "series.parquet")]).fetchall()
    return frozenset(ident for (ident,) in rows)

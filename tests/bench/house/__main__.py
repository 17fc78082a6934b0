"""``python -m tests.bench.house [--at COMMIT] [--root PATH] [--entered] [--list FIGURE]``.

Prints the figures of a tree, beside those of another commit or folder if one is named, oldest first. ``--entered``
adds what one question and one training step enter, by profiles of a local stack: two minutes per tree. ``--list`` prints the places behind a figure.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.house import ROOT
from tests.bench.house.entered import profile_question, profile_step
from tests.bench.house.figures import measure
from tests.bench.house.table import print_table


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m tests.bench.house", description=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--at", metavar="COMMIT", action="append", default=[], help="also measure this commit")
    parser.add_argument(
        "--root", metavar="PATH", type=Path, action="append", default=[], help="also measure this folder"
    )
    parser.add_argument("--entered", action="store_true", help="profile one question and one training step, too")
    parser.add_argument("--list", metavar="FIGURE", help="print the places that this figure of this tree counts")
    options = parser.parse_args()
    if options.list:
        return list_places(options.list)
    trees = {}
    for commit in options.at:
        with checkout(commit) as root:
            trees[commit[:12]] = measure_tree(root, options.entered)
    for root in options.root:
        trees[root.name[:12]] = measure_tree(root.resolve(), options.entered)
    trees["this tree"] = measure_tree(ROOT, options.entered)
    print_table(trees)
    return 0


def measure_tree(root: Path, with_profiles: bool) -> dict[str, float]:
    """Return the figures of one tree."""
    return {**measure(root).figures, **(profile_question(root) | profile_step(root) if with_profiles else {})}


def list_places(figure: str) -> int:
    """Print the places behind every figure of this tree whose name has ``figure`` in it; 2 when there is none."""
    places = {name: found for name, found in measure(ROOT).places.items() if figure.lower() in name.lower()}
    for name, found in places.items():
        print(f"{name}: {len(found)}", *found, sep="\n  ")
    return 0 if places else 2


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Yield a work tree of the commit, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="house-", dir=ROOT / ".fathom") as folder:
        root = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(root), commit], check=True)
        try:
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


if __name__ == "__main__":
    raise SystemExit(main())

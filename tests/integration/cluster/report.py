"""Report what a rolling restart did to users: operations, failures, the longest wait against the quiet time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One operation during one stage. Times in seconds; ``quiet_s`` is the longest wait without a restart."""

    stage: str
    what: str
    done: int
    failed: tuple[str, ...]
    mended: tuple[str, ...]
    """Failures that clients repaired by themselves: streams taken up, sessions opened again."""
    longest_s: float
    quiet_s: float

    def __str__(self) -> str:
        ratio = f"{self.longest_s / self.quiet_s:5.1f}x" if self.quiet_s else "    -"
        return (
            f"{self.stage:<24} {self.what:<10} {self.done:>5} {len(self.failed):>4} {len(self.mended):>6} "
            f"{self.longest_s:>8.2f} {self.quiet_s:>8.2f} {ratio}"
        )


HEAD = f"{'restarting':<24} {'users of':<10} {'calls':>5} {'lost':>4} {'mended':>6} {'longest':>8} {'quiet':>8} ratio"


def rows(findings: Mapping[str, Any]) -> Iterator[Row]:
    """A row per stage and operation, of all operations that overlap the stage."""
    quiet, *stages = findings["windows"]
    before = {what: longest(found) for what, found in during(findings["operations"], quiet).items()}
    for stage in stages:
        for what, found in sorted(during(findings["operations"], stage).items()):
            yield Row(
                stage["name"],
                what,
                len(found),
                tuple(item["error"] for item in found if "error" in item),
                tuple(item["mended"] for item in found if item.get("mended")),
                longest(found),
                before.get(what, 0.0),
            )


def during(operations: Sequence[Mapping[str, Any]], window: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Operations by name that ran at some moment of the window."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for item in operations:
        if item["began"] < window["ended"] and item["began"] + item["seconds"] > window["began"]:
            found.setdefault(item["what"], []).append(item)
    return found


def longest(found: Sequence[Mapping[str, Any]]) -> float:
    return float(max(item["seconds"] for item in found))

"""Reading of executed cells: sheets, numbers, measures and densities that their code names, across cells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# What a method of pandas computes, by the names of datafetch's measures. Other functions are known by their names.
METHODS: Mapping[str, tuple[str, ...]] = {
    "pct_change": ("return", "growth", "change", "yoy", "qoq", "mom"),
    "diff": ("change",),
    "std": ("volatility",),
    "corr": ("correlation",),
    "corrwith": ("correlation",),
    "cov": ("covariance",),
    "mean": ("mean",),
    "median": ("median",),
    "mode": ("mode",),
    "quantile": ("percentile",),
    "skew": ("skewness",),
    "kurt": ("kurtosis",),
    "cummax": ("max_drawdown",),
    "cumprod": ("return",),
    "cumsum": ("sum",),
    "sum": ("sum", "count"),
    "count": ("count",),
    "len": ("count",),
    "value_counts": ("count",),
    "nlargest": ("max", "rank"),
    "nsmallest": ("min", "rank"),
    "idxmax": ("max",),
    "idxmin": ("min",),
    "max": ("max",),
    "min": ("min",),
    "rank": ("rank",),
    "sorted": ("rank", "max", "min"),
    "sort": ("rank", "max", "min"),
    "argsort": ("rank",),
    "sort_values": ("rank", "max", "min"),
    "rolling": ("rolling", "moving_average"),
    "ewm": ("moving_average",),
    # Functions of the finance library.
    "summary": ("return", "change", "mean", "max", "min", "extreme", "price"),
    "by_period": ("count", "rank", "mean", "max", "min", "extreme"),
    "recovery": ("max", "min", "change", "return", "max_drawdown"),
    "growth": ("growth", "yoy", "qoq", "mom", "annualized"),
    "gap_to_mean": ("moving_average",),
    "crossings": ("crossover",),
    "since": ("return", "change"),
    "holding_return": ("return", "cagr"),
    "deflate": ("real",),
    "portfolio": ("portfolio",),
    # Steps of programs, by finance.steps.
    "maximum": ("max", "extreme", "rank"),
    "minimum": ("min", "extreme", "rank"),
    "top": ("max", "rank", "extreme"),
    "bottom": ("min", "rank", "extreme"),
    "total": ("sum",),
    "average": ("moving_average", "mean", "rolling"),
    "moves": ("return", "growth", "change", "mom", "qoq"),
    "steps": ("change",),
    "yoy": ("growth", "yoy", "change"),
    "qoq": ("growth", "qoq", "change"),
    "mom": ("growth", "mom", "change"),
    "annualised": ("growth", "annualized", "cagr"),
    "ret": ("return", "change", "growth", "performance"),
    "change": ("change", "return"),
    "pct": ("return", "change", "growth"),
    "minus": ("spread", "change"),
    "grow": ("return",),
    "cagr": ("cagr", "return", "annualized"),
    "vol": ("volatility", "annualized"),
    "levels_corr": ("correlation",),
    "rise": ("return", "change"),
    "count_if": ("count",),
    "share_if": ("count",),
    "longest": ("count", "max"),
    "size": ("count",),
    "days": ("count",),
    "months": ("count",),
    "years": ("count",),
    "share": ("ratio", "weight"),
    "over": ("ratio",),
}
# Calls whose text argument is a density, as pandas writes it.
DENSE = frozenset({"resample", "asfreq", "Grouper", "to_period", "date_range", "period_range", "bdate_range"})
OFFSET = re.compile(r"^\d*(?P<code>B?[DAYQMW])(?:S|E|B)*(?:-[A-Z]{3})?$")
# Parts of a date: whoever reads them groups by them.
PARTS = {"month": "monthly", "year": "annual", "quarter": "quarterly", "week": "weekly", "isocalendar": "weekly"}
# How the finance library calls lengths of periods, and the calls that take them.
LENGTHS = {"week": "weekly", "month": "monthly", "quarter": "quarterly", "year": "annual"}
BY_LENGTH = frozenset({"by_period", "period_returns", "portfolio"})
DENSITIES = {"D": "daily", "W": "weekly", "M": "monthly", "Q": "quarterly", "Y": "annual", "A": "annual"}
NAMES = frozenset(DENSITIES.values())
VARIABLE = "variable"
# Longer texts are documents, not labels.
LABEL_CHARS = 120


@dataclass(frozen=True)
class CellFacts:
    """Names in the code of one cell; empty for code that is no Python."""

    loads: frozenset[str] = frozenset()
    """Variables that it reads."""
    stores: frozenset[str] = frozenset()
    """Variables and functions that it defines."""
    numbers: frozenset[float] = frozenset()
    labels: tuple[str, ...] = ()
    """Names of calls, functions, variables and keys, and short texts."""
    measures: frozenset[str] = frozenset()
    """Quantities that its calls compute, by their documented meaning."""
    frequencies: frozenset[str] = frozenset()


def read_cell(code: str) -> CellFacts:
    """Return what the code of a cell names."""
    try:
        tree = ast.parse(code)
    # A cell with magics, or one that never ran.
    except (SyntaxError, ValueError, RecursionError):
        return CellFacts()
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    calls = [name_call(node) for node in nodes if isinstance(node, ast.Call)]
    stored = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    return CellFacts(
        frozenset(node.id for node in names if isinstance(node.ctx, ast.Load)),
        frozenset([*stored, *functions]),
        frozenset(list_numbers(nodes)),
        tuple(dict.fromkeys(filter(None, [*functions, *calls, *stored, *list_texts(nodes), *list_keywords(nodes)]))),
        frozenset(word for call in calls for word in METHODS.get(call, ())),
        find_densities(nodes),
    )


def name_call(node: ast.Call) -> str:
    """Return the last name of what is called: ``mean`` for ``prices.mean()``."""
    called = node.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def list_numbers(nodes: Sequence[ast.AST]) -> Iterator[float]:
    """Yield all number literals, and the quotients of two of them, as in ``3 / 100``."""
    for node in nodes:
        if is_number(node):
            yield float(node.value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_number(node.left, node.right):
            divisor = float(node.right.value)  # type: ignore[attr-defined]
            if divisor:
                yield float(node.left.value) / divisor  # type: ignore[attr-defined]


def is_number(*nodes: ast.AST) -> bool:
    """Return whether all nodes are literals of real numbers."""
    return all(
        isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
        for node in nodes
    )


def list_texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= LABEL_CHARS:
            yield node.value


def list_keywords(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)
        elif isinstance(node, ast.arguments):
            yield from (argument.arg for argument in [*node.args, *node.kwonlyargs])


def list_densities(node: ast.AST) -> Iterator[str]:
    """Yield the densities that a call names: ``resample("ME")``, ``mean(x, "monthly")``."""
    if isinstance(node, ast.Call):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [part.value for part in arguments if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if name_call(node) in DENSE:
            yield from filter(None, map(parse_offset, texts))
            if not texts and arguments:
                # The density is a parameter of the cell's own function: its callers write it.
                yield VARIABLE
        if name_call(node) in BY_LENGTH:
            yield from (LENGTHS[text] for text in texts if text in LENGTHS)
        # Functions of a library take the density by its name.
        yield from (text for text in texts if text in NAMES)


def find_densities(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return all densities that the code names."""
    found = {density for node in nodes for density in list_densities(node)} | set(list_parts(nodes))
    if VARIABLE in found:
        found |= {density for text in list_texts(nodes) if (density := parse_offset(text))}
    return frozenset(found - {VARIABLE})


def list_parts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the densities of the parts of dates that the code reads; years beside months only tell months apart."""
    parts = {node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr in PARTS}
    yield from (PARTS[part] for part in parts - {"year"} or parts)


def parse_offset(text: str) -> str:
    """Return the density of a pandas offset alias such as "ME", "W-FRI" or "QE-DEC"; "" for any other text."""
    match = OFFSET.match(text.upper())
    return DENSITIES[match["code"][-1]] if match else ""


def close_over(cells: Mapping[int, CellFacts], used: Sequence[int]) -> tuple[list[int], frozenset[str]]:
    """Return the used cells with earlier cells whose names they read, in order, and all names that these load.

    ``cells`` are by number, in the order in which they ran.
    """
    wanted, loads = set(used), frozenset[str]()
    for number in sorted(cells, reverse=True):
        facts = cells[number]
        if number in wanted or (facts.stores & loads and wanted and number < max(wanted)):
            wanted.add(number)
            loads |= facts.loads
    return sorted(wanted & set(cells)), loads

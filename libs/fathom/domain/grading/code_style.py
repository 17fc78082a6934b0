"""Style check of model-written cells and the rewards derived from it; pure functions of text.

A cell in functional style defines exactly one function with a single purpose and then, in at most three statements,
calls it and prints its result.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

# Statements after the function: call it, name its result, print it.
MAX_DRIVERS = 3
MAX_CODE_CHARS = 262_144
# A cell that is not in functional style earns less than one that is, however near it comes.
MOST_WITHOUT_STYLE = 0.9
PEEKS = frozenset(
    {"head", "tail", "info", "describe", "shape", "columns", "dtypes", "sample", "to_string", "iloc", "loc"}
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Style:
    """Result of the check: ``problems`` in words, empty for a cell in functional style; ``reward`` in [0, 1]."""

    problems: tuple[str, ...]
    reward: float

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def correction(self) -> str:
        """One message for the model, "" when there is nothing to correct. The cell has run in either case."""
        if self.ok:
            return ""
        wanted = f"call it and print its result in at most {MAX_DRIVERS} statements"
        found = "; ".join(self.problems)
        return f"Style: {found}. Next time define exactly one function with a single purpose, then {wanted}."


@dataclass(frozen=True)
class LengthBand:
    """Band of the length reward, in statements of called functions.

    The reward rises from 0 at ``start`` to 1 at ``full``, stays 1 until ``last``, and falls to 0 at ``end``.
    """

    start: int = 1
    full: int = 6
    last: int = 40
    end: int = 80

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.full <= self.last < self.end:
            raise ValueError("the band must have 0 <= start < full <= last < end")


@dataclass(frozen=True)
class Cell:
    """A parsed cell: its top-level functions, and the statements that drive them."""

    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    drivers: tuple[ast.stmt, ...]

    @cached_property
    def called_names(self) -> frozenset[str]:
        """Names called by the drivers, directly or through functions that these call."""
        bodies = {function.name: function for function in self.functions}
        found: set[str] = set()
        waiting = [name for statement in self.drivers for name in calls(statement)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += calls(bodies[name]) if name in bodies else []
        return frozenset(found)


def parse(code: str) -> Cell | None:
    """Parse a cell; return None for text that is not Python, such as IPython's ``%`` and ``!`` lines."""
    # Bounds the time that ast.parse can take on a model's output.
    if len(code) > MAX_CODE_CHARS:
        return None
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = tuple(statement for statement in body if isinstance(statement, FUNCTIONS))
    drivers = tuple(s for s in body if not isinstance(s, (*FUNCTIONS, *IMPORTS, ast.Pass)) and not is_text(s))
    return Cell(functions, drivers)


def check(code: str) -> Style:
    """Check a cell for functional style; imports, docstrings and comments are ignored."""
    return style_of(parse(code))


def style_of(cell: Cell | None) -> Style:
    """Check a parsed cell for functional style; None stands for invalid Python."""
    if cell is None:
        return Style(("the cell is no valid Python",), 0.0)
    problems = tuple(find_faults(cell))
    if not problems:
        return Style((), 1.0)
    statements = [*cell.functions, *cell.drivers]
    good = sum(isinstance(one, FUNCTIONS) or is_driver(one, cell) for one in statements)
    share = good / len(statements) if statements and cell.functions else 0.0
    # A share instead of 0, so that a policy that has never written a function is paid for coming nearer.
    return Style(problems, min(share, MOST_WITHOUT_STYLE))


def find_faults(cell: Cell) -> Iterator[str]:
    """Yield the reasons why a cell is not in functional style."""
    if len(cell.functions) != 1:
        yield f"{len(cell.functions)} functions are defined at the top level instead of one"
    if len(cell.drivers) > MAX_DRIVERS:
        yield f"{len(cell.drivers)} statements follow instead of at most {MAX_DRIVERS}"
    names = {function.name for function in cell.functions}
    if cell.functions and not names & cell.called_names:
        yield "the function is never called"
    if not any(is_print(node) for statement in cell.drivers for node in ast.walk(statement)):
        yield "no result is printed"
    loose = [statement for statement in cell.drivers if not is_simple(statement)]
    if loose:
        yield f"line {loose[0].lineno}: work is done outside the function"


def is_text(statement: ast.stmt) -> bool:
    """Return True for a bare constant, such as a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_simple(statement: ast.stmt) -> bool:
    """Return True for an assignment or an expression: no loop, no branch, no class."""
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr))


def is_driver(statement: ast.stmt, cell: Cell) -> bool:
    """Return True for a simple statement that calls one of the cell's functions or prints."""
    names = {function.name for function in cell.functions}
    walked = list(ast.walk(statement))
    return is_simple(statement) and (bool(names & set(calls(statement))) or any(map(is_print, walked)))


def is_print(node: ast.AST) -> bool:
    """Return True for a call of ``print`` or ``display`` with arguments, or a figure's ``show``."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in ("print", "display") and bool(node.args)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "show"


def calls(node: ast.AST) -> list[str]:
    """Return the names of plain functions called below a node, or passed as arguments to be called."""
    found_names = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            # Passed to be called, as in df.apply(compute).
            handed = [argument for argument in inner.args if isinstance(argument, ast.Name)]
            found_names += [part.id for part in (inner.func, *handed) if isinstance(part, ast.Name)]
    return found_names


def length(code: str) -> int:
    """Count the statements in called functions, without docstrings, ``pass`` and repeated statements."""
    return length_of(parse(code))


def length_of(cell: Cell | None) -> int:
    """Count the statements in called functions of a parsed cell; see :func:`length`."""
    if cell is None:
        return 0
    called = cell.called_names
    seen: set[str] = set()
    for function in cell.functions:
        if function.name in called:
            inner = (node for statement in function.body for node in ast.walk(statement))
            # As a set of dumps: copies of one statement are one, or padding a function would pay.
            seen |= {ast.dump(node) for node in inner if isinstance(node, ast.stmt) and counts(node)}
    return len(seen)


def counts(statement: ast.stmt) -> bool:
    return not is_text(statement) and not isinstance(statement, (ast.Pass, ast.Global, ast.Nonlocal))


def length_reward(code: str, band: LengthBand | None = None) -> float:
    """Return the length reward of a cell, in [0, 1].

    It is 0 up to ``start``, rises to 1 at ``full``, stays 1 to ``last`` and falls to 0 at ``end``. Code whose hack
    flags say that it does no work of its own gets 0.
    """
    cell = parse(code)
    return length_reward_of(length_of(cell), hacks_of(cell), band)


def length_reward_of(size: int, flags: frozenset[str], band: LengthBand | None = None) -> float:
    """Return the length reward for a number of statements and the flags of :func:`hacks`."""
    band = band or LengthBand()
    if flags:
        return 0.0
    # A plateau instead of a slope, so that neither a cell that only looks at a table nor an endless one pays.
    if size <= band.last:
        return min(1.0, max(0.0, (size - band.start) / (band.full - band.start)))
    return max(0.0, (band.end - size) / (band.end - band.last))


def execution_reward(code: str, finished: bool, stdout: str) -> float:
    """Return 1 for a cell that finished without exception, in time, and printed something of its own; else 0."""
    return execution_reward_of(hacks(code), finished, stdout)


def execution_reward_of(flags: frozenset[str], finished: bool, stdout: str) -> float:
    """Return the execution reward for given flags of :func:`hacks`."""
    return float(finished and bool(stdout.strip()) and "dataframe-only" not in flags)


def hacks(code: str) -> frozenset[str]:
    """Return the reward hacks found: "no-function-called", "constant-print", "dataframe-only"."""
    return hacks_of(parse(code))


def hacks_of(cell: Cell | None) -> frozenset[str]:
    """Return the reward hacks found in a parsed cell; none for invalid Python."""
    if cell is None:
        return frozenset()
    flags = set()
    called = cell.called_names
    own = [function for function in cell.functions if function.name in called]
    if not own:
        flags.add("no-function-called")
    shown = [node for one in (*own, *cell.drivers) for node in ast.walk(one) if is_print(node)]
    arguments = [argument for node in shown if isinstance(node, ast.Call) for argument in node.args]
    if arguments and all(is_constant(argument) for argument in arguments) and not any(returns_work(one) for one in own):
        flags.add("constant-print")
    # Of the function, if one is called; a cell without any is judged by its statements.
    work = [statement for one in own for statement in one.body if counts(statement)] or list(cell.drivers)
    if work and all(is_peek(statement) for statement in work):
        flags.add("dataframe-only")
    return frozenset(flags)


def is_constant(node: ast.expr) -> bool:
    """Return True for an expression without any data in it."""
    return all(
        isinstance(inner, (ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Load)) for inner in ast.walk(node)
    )


def returns_work(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if the function returns something that is not constant."""
    given = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return any(not is_constant(value) for value in given)


def is_peek(statement: ast.stmt) -> bool:
    """Return True for showing or returning a table, or a view of it, with nothing computed."""
    if isinstance(statement, ast.Return):
        return statement.value is not None and is_look(statement.value)
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if is_print(value) and isinstance(value, ast.Call):
        return all(is_look(argument) for argument in value.args)
    return is_look(value)


def is_look(node: ast.expr) -> bool:
    """Return True for a name, a column of it, or a method that only shows a part of a table."""
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in PEEKS and is_look(node.func.value)
    if isinstance(node, ast.Attribute):
        return node.attr in PEEKS and is_look(node.value)
    return isinstance(node, ast.Subscript) and is_look(node.value)


@dataclass(frozen=True)
class CodeReward:
    """Rewards of one cell, each in [0, 1], the flags of :func:`hacks` and the statements of :func:`length`."""

    style: float
    length: float
    execution: float
    hacks: frozenset[str]
    statements: int = 0

    def total(self, *, style: float = 0.5, length: float = 0.5, hack: float = 0.5) -> float:
        """Return ``execution · (style·s + length·f) − hack·[any flag]``: style pays only where the code runs."""
        return self.execution * (style * self.style + length * self.length) - hack * bool(self.hacks)


def code_reward(code: str, finished: bool, stdout: str, band: LengthBand | None = None) -> CodeReward:
    """Compute all rewards of a cell. ``finished`` is False after an exception, a timeout or any other abnormal end."""
    cell = parse(code)
    flags, size = hacks_of(cell), length_of(cell)
    return CodeReward(
        style_of(cell).reward,
        length_reward_of(size, flags, band),
        execution_reward_of(flags, finished, stdout),
        flags,
        size,
    )

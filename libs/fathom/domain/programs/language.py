"""The language of programs: functions and their arguments, tokens, parsing and rendering.

A program is a list of calls. Its strings are words of the question; what a series or a group is stands behind its
words, in quotes where it is no Python name: ``maximum(within(series("VIX", VIX), "2014"))``. See docs/finance.md for
what the functions compute.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fathom.core.errors import InvalidField

# Kinds of arguments: L a line or group, P a period, date or point, N a number or point, X any value, O a comparison,
# F a unit of time, H an aggregate, D a direction, R a currency, S words; "?" may be left out, "*" may be repeated.
SIGNATURES: Mapping[str, str] = {
    "within": "LP", "between": "LPP", "after": "LP", "before": "LP", "every": "LFH", "moves": "LF", "steps": "LF",
    "yoy": "L", "qoq": "L", "mom": "L", "average": "LN", "minus": "XX", "plus": "XX", "times": "XX", "over": "XX",
    "share": "XX", "pct": "XX", "neg": "N", "magnitude": "X", "rate": "RR", "real": "XP?", "at": "LP", "first": "L",
    "last": "L", "maximum": "L", "minimum": "L", "mean": "L", "median": "L", "total": "L", "std": "L", "count": "L",
    "top": "XN?", "bottom": "XN?", "rank": "X", "ret": "L", "change": "L", "cagr": "L", "drawdown": "L", "rise": "L",
    "vol": "LF?", "sharpe": "LN?F?", "sortino": "LN?F?", "corr": "LL?F?", "levels_corr": "LL", "beta": "LLF?",
    "recovery": "L", "count_if": "LON", "share_if": "LON", "first_if": "LON", "last_if": "LON", "longest": "LON",
    "crossings": "LXD", "size": "X", "item": "XN", "grow": "NL", "days": "PP", "months": "PP", "years": "PP",
    "sessions": "LPP", "summary": "L", "start": "P", "end": "P", "each": "X*", "portfolio": "NL*F?", "later": "PNF",
    "earlier": "PNF", "ahead": "LPN", "where": "LLON", "recent": "LNF", "rolling_max": "LN", "rolling_min": "LN",
    "percentile": "LN", "annualised": "L", "when": "S*", "crossover": "LN?N?",
}  # fmt: skip
# Functions whose value is a line, and those whose value is one where an argument is.
LINES = frozenset({
    "within", "between", "after", "before", "every", "moves", "steps", "yoy", "qoq", "mom", "average", "rate",
    "portfolio", "where", "recent", "rolling_max", "rolling_min", "annualised", "magnitude",
})  # fmt: skip
EITHER = frozenset({"each", "plus", "minus", "times", "over", "share", "real"})
# Functions that only say which values of a series are meant, and the parts of periods.
LOOKING_UP = frozenset({"at", "last", "within", "series", "when", "start", "end"})
# Functions that no network has learnt to write: programs have them where the words of a question say so by rules.
DERIVED: Mapping[str, str] = {"rolling_vol": "LNF", "rolling_ret": "LNF", "without": "LP"}
WORDS: Mapping[str, frozenset[str]] = {
    "O": frozenset({"above", "below", "at_least", "at_most"}),
    "F": frozenset({"day", "week", "month", "quarter", "year"}),
    "H": frozenset({"last", "first", "mean", "sum", "max", "min", "count"}),
    "D": frozenset({"up", "down", "both"}),
}
# What no calculation answers.
SPECIAL = frozenset({"documents", "unclear", "outside", "chat"})
GROUPS = ("factor_etfs", "pharma", "big_banks", "oil_majors", "chip_makers", "single_stocks")
LITERALS = (0, 1, 2, 3, 4, 5, 6, 10, 12, 50, 100, 200, 1000)
MOST_STEPS = 12
# What words mean that no name has, where the user has given a single table: its columns.
WHOLE_TABLE = "own"
# Ids of the columns of an own table that measure the same of several things.
OWN_GROUP = "own_"
NO_SERIES, EURO, SPAN, CLOSE, BEGIN, END = "none", "EUR", "SPAN", ")", "<bos>", "<eos>"
OPEN_SERIES = "series("
# The order is that of the rows of the network's weights.
TOKENS: tuple[str, ...] = (
    "<pad>", BEGIN, END, CLOSE, SPAN, EURO, OPEN_SERIES, "members(", *(f"{name}(" for name in sorted(SIGNATURES)),
    *(f"{name}(" for name in sorted(SPECIAL)), *sorted({word for words in WORDS.values() for word in words}),
    *(f"#{number}" for number in LITERALS), *(f"_{step}" for step in range(1, MOST_STEPS + 1)),
    *(f"@{group}" for group in GROUPS),
)  # fmt: skip
INDEX: Mapping[str, int] = {token: at for at, token in enumerate(TOKENS)}
REFERENCE = re.compile(r"_(\d+)")


@dataclass(frozen=True)
class Quote:
    """Words of the question."""

    text: str


@dataclass(frozen=True)
class Word:
    """A word of the language, such as ``month``."""

    text: str


@dataclass(frozen=True)
class Number:
    """A number that the language has."""

    value: int


@dataclass(frozen=True)
class Reference:
    """The value of an earlier step, counted from 1."""

    step: int


@dataclass(frozen=True)
class Call:
    """A call; ``target`` is the id of a series (``none``: there is none) or of a group."""

    name: str
    arguments: tuple[Node, ...] = ()
    target: str = ""

    @property
    def words(self) -> str:
        """Return the quoted words among the arguments."""
        return " ".join(one.text for one in self.arguments if isinstance(one, Quote))


Node = Call | Quote | Word | Number | Reference


@dataclass(frozen=True)
class Action:
    """A token with the words that it quotes, or with the series that it ends."""

    token: str
    text: str | None = None
    target: str | None = None


def split_signature(name: str) -> list[str]:
    """Return the kinds of the arguments of a function."""
    return re.findall(r".[?*]?", SIGNATURES.get(name) or DERIVED[name])


def parse(text: str, *, are_ids_omitted: bool = False) -> tuple[Call, ...]:
    """Parse a program, a line per step; raise ``InvalidField("program")`` for anything else.

    ``are_ids_omitted`` says that series have their words alone, or ``none`` behind them.
    """
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError) as error:
        raise InvalidField("program", f"cannot be read: {error}") from error
    steps = [parse_node(one.value, are_ids_omitted) for one in body if isinstance(one, ast.Expr)]
    calls = tuple(one for one in steps if isinstance(one, Call))
    if not calls or len(calls) != len(body):
        raise InvalidField("program", "has a line that is no call")
    return calls


def parse_node(node: ast.expr, are_ids_omitted: bool = False) -> Node:
    """Return a part of a program; raise ``InvalidField("program")`` for one that the language does not have."""
    match node:
        case ast.Constant(value=str(text)):
            return Quote(text)
        case ast.Constant(value=int(number)) if number in LITERALS:
            return Number(number)
        case ast.Name(id=name):
            found = REFERENCE.fullmatch(name)
            return Reference(int(found[1])) if found else Word(name)
        case ast.Call(func=ast.Name(id="series"), args=words) if are_ids_omitted and is_quoted(words):
            return Call("series", tuple(map(parse_node, words)))
        case ast.Call(func=ast.Name(id=("series" | "members") as name), args=[*words, target]):
            return Call(name, tuple(map(parse_node, words)), parse_target(target))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in {*SIGNATURES, *DERIVED, *SPECIAL}:
            return Call(name, tuple(parse_node(one, are_ids_omitted) for one in arguments))
    raise InvalidField("program", f"{ast.unparse(node)!r} is not part of the language")


def parse_target(node: ast.expr) -> str:
    """Return the id of a series or group; one that is no Python name is in quotes."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def render_target(target: str) -> str:
    """Return an id as ``parse_target`` reads it: 000651.revenue in quotes, AAPL.close as it is."""
    parts = target.split(".")
    is_name = all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)
    return target if is_name else json.dumps(target, ensure_ascii=False)


def is_quoted(nodes: Sequence[ast.expr]) -> bool:
    """Return whether all arguments are quoted words."""
    return all(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in nodes)


def render(steps: Sequence[Call]) -> str:
    """Return the text of a program."""
    return "\n".join(map(render_node, steps))


def render_node(node: Node) -> str:
    match node:
        case Quote(text):
            return json.dumps(text, ensure_ascii=False)
        case Number(value):
            return str(value)
        case Reference(step):
            return f"_{step}"
        case Word(text):
            return text
        case Call(name, arguments, target):
            shown = [*map(render_node, arguments), *([render_target(target)] if target else [])]
            return f"{name}({', '.join(shown)})"


def list_actions(steps: Sequence[Call]) -> list[Action]:
    """Return the actions that make a program; raise ``InvalidField("program")`` for a token that there is not."""
    found = [action for step in steps for action in list_node_actions(step)]
    for action in found:
        if action.token not in INDEX:
            raise InvalidField("program", f"{action.token!r} is not part of the language")
    return found


def list_node_actions(node: Node) -> Iterator[Action]:
    match node:
        case Quote(text):
            yield Action(SPAN, text)
        case Number(value):
            yield Action(f"#{value}")
        case Call(name, arguments, target):
            yield Action(f"{name}(")
            for argument in arguments:
                yield from list_node_actions(argument)
            if name == "members":
                yield Action(f"@{target}")
            yield Action(CLOSE, target=target if name == "series" else None)
        case _:
            yield Action(render_node(node))


def build(actions: Sequence[Action]) -> tuple[Call, ...]:
    """Return the program that actions make; the automaton has to allow each of them."""
    steps: list[Call] = []
    frames: list[tuple[str, list[Node], str]] = []
    for action in actions:
        token = action.token
        if token.endswith("("):
            frames.append((token[:-1], [], ""))
            continue
        if token == CLOSE:
            name, arguments, target = frames.pop()
            call = Call(name, tuple(arguments), action.target or target)
            if frames:
                frames[-1][1].append(call)
            else:
                steps.append(call)
        elif token.startswith("@"):
            frames[-1] = (*frames[-1][:2], token[1:])
        else:
            frames[-1][1].append(parse_token(token, action.text))
    return tuple(steps)


def parse_token(token: str, text: str | None) -> Node:
    if token == SPAN:
        return Quote(text or "")
    if token.startswith("#"):
        return Number(int(token[1:]))
    found = REFERENCE.fullmatch(token)
    return Reference(int(found[1])) if found else Word(token)


def map_calls(node: Call, change: Callable[[Call], Call]) -> Call:
    """Return the call with each argument that is a call changed."""
    return replace(node, arguments=tuple(change(one) if isinstance(one, Call) else one for one in node.arguments))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all that it consists of, in the order of the text."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)

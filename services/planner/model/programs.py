"""Programs of questions as the planner gets them from datafetch: calls whose strings are words of the conversation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.core.errors import CorruptData
from fathom.services.planner.model.slots import ReadText

SERIES, MEMBERS = "series", "members"
CALCULATION, DOCUMENTS = "calculation", "documents"


@dataclass(frozen=True)
class Quote:
    """Words of the conversation."""

    text: str


@dataclass(frozen=True)
class Sign:
    """A number, a reference to an earlier step or a word of the language, such as ``month``."""

    text: str


@dataclass(frozen=True)
class Call:
    """A function with its arguments; of a series or a group the arguments are its words."""

    name: str
    arguments: tuple[Node, ...] = ()

    @property
    def words(self) -> str:
        """Return the words among the arguments."""
        return " ".join(one.text for one in self.arguments if isinstance(one, Quote))


Node = Call | Quote | Sign


@dataclass(frozen=True)
class Program:
    """The calculation that a question asks for, with the probabilities of its tokens and of its least sure series.

    ``gaps`` are the reasons why words cannot be computed, as in the contract's ``ProgramGap``.
    """

    kind: str
    steps: tuple[Call, ...]
    confidence: float
    link_confidence: float
    gaps: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return all parts in the order of the text."""
        return tuple(node for step in self.steps for node in walk(step))

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that it uses, as often as it does."""
        return tuple(node.text for node in self.nodes if isinstance(node, Quote))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the words for its series and groups, each once."""
        found = [node.words for node in self.nodes if isinstance(node, Call) and node.name in (SERIES, MEMBERS)]
        return tuple(dict.fromkeys(found))

    @property
    def functions(self) -> frozenset[str]:
        """Return the names of its functions."""
        return frozenset(node.name for node in self.nodes if isinstance(node, Call))

    @property
    def shape(self) -> tuple[str, ...]:
        """Return its parts without the words: programs of one shape ask the same of other things."""
        return tuple("" if isinstance(node, Quote) else describe(node) for node in self.nodes)


@dataclass(frozen=True)
class ReadProgram:
    """A question as read, with its program; None where there is none."""

    text: ReadText
    program: Program | None = None


def describe(node: Call | Sign) -> str:
    """Return a part without its words, with the number of its arguments."""
    return f"{node.name}/{len(node.arguments)}" if isinstance(node, Call) else node.text


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all that it consists of, in the order of the text."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)


def parse_steps(text: str) -> tuple[Call, ...]:
    """Parse the text of a program, a line per step; raise ``CorruptData`` for anything else."""
    try:
        lines: Sequence[ast.stmt] = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise CorruptData("program", f"cannot be read: {error}") from error
    steps = [parse_node(line.value) for line in lines if isinstance(line, ast.Expr)]
    calls = tuple(step for step in steps if isinstance(step, Call))
    if len(calls) != len(lines):
        raise CorruptData("program", "has a line that is no call")
    return calls


def parse_node(node: ast.expr) -> Node:
    """Return a part of a program; raise ``CorruptData`` for what is none."""
    match node:
        case ast.Constant(value=str(text)):
            return Quote(text)
        case ast.Call(func=ast.Name(id=(("series" | "members") as name)), args=[*words, _]):
            return Call(name, tuple(map(parse_node, words)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return Call(name, tuple(map(parse_node, arguments)))
        case ast.Constant() | ast.Name():
            return Sign(ast.unparse(node))
    raise CorruptData("program", f"{ast.unparse(node)!r} is not part of a program")

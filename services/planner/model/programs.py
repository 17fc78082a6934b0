"""Programs of questions as the planner gets them from datafetch: calls whose strings are words of the conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.programs.language import Call, Node, Quote, parse, render_node, walk
from fathom.services.planner.model.slots import ReadText

SERIES, MEMBERS = "series", "members"


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
    resolved: tuple[str, ...] = ()
    """Its steps with days for its periods and ids for its series; () where they could not be resolved."""
    left_out: tuple[str, ...] = ()
    """Names, periods, numbers and indicators of the question that no step uses."""
    unread: tuple[str, ...] = ()
    """Words of the question that have no meaning for the reader, and that no step uses."""
    rates: frozenset[str] = frozenset()
    """Words for its series that are prices of the euro in another currency."""

    @property
    def meaning(self) -> tuple[str, ...]:
        """Return what it computes, whatever words say so: its resolved steps, else its steps without case."""
        return self.resolved or tuple(render_node(step).casefold() for step in self.steps)

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


def describe(node: Node) -> str:
    """Return a part without its words, a call with the number of its arguments."""
    return f"{node.name}/{len(node.arguments)}" if isinstance(node, Call) else render_node(node)


def parse_steps(text: str) -> tuple[Call, ...]:
    """Parse the text of a program, a line per step, () for none; raise ``CorruptData`` for anything else.

    The planner compares what was said: which series datafetch has found for the words is left out.
    """
    try:
        return tuple(map(omit_target, parse(text))) if text.strip() else ()
    except InvalidField as error:
        # Datafetch has written it: nothing that a caller could mend.
        raise CorruptData("program", error.message) from error


def omit_target(step: Call) -> Call:
    """Return a call whose series and groups are their words alone."""
    arguments = tuple(omit_target(one) if isinstance(one, Call) else one for one in step.arguments)
    return replace(step, arguments=arguments, target="")

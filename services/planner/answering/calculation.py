"""The program of a question as an episode has computed it: its words, and the notes of the call that read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.programs.outcomes import read_outcomes
from fathom.domain.programs.resolved import ResolvedProgram
from fathom.domain.tool_results import make_step
from fathom.services.planner.model.episode import Episode, Material, MaterialKind, ToolResult

DATA = "data"


@dataclass(frozen=True)
class Computed:
    """A program that an episode has computed: the question's words that it uses.

    ``read`` are the numbers of what the call brought that read the question.
    """

    words: tuple[str, ...]
    read: frozenset[int] = frozenset()


def find_computed(episode: Episode) -> Computed | None:
    """Return the program of the episode's question; None where it has none or a step of it was not computed."""
    results = [result for step in episode.steps for result in step.results]
    programs = [(result, one) for result in results if (one := read_program(result)) is not None]
    if not programs:
        return None
    (reading, program), *_ = programs
    count = len(program.steps)
    done = {number for result in results for number in list_steps(result)}
    if not count or not set(range(1, count + 1)) <= done:
        return None
    numbers = frozenset(item.number for item in reading.material)
    return Computed(program.words, numbers)


def drop_misreadings(material: Sequence[Material], episode: Episode) -> list[Material]:
    """Return material without what the reading of words missed in a question whose program was computed.

    The program says what the question asks for; what the words gave beside it is neither used nor missing.
    """
    computed = find_computed(episode)
    read = computed.read if computed is not None else frozenset()
    return [item for item in material if item.kind is not MaterialKind.MISSING or item.number not in read]


def read_program(result: ToolResult) -> ResolvedProgram | None:
    """Return the program that a result of the data tool carries; None for any other result."""
    if result.call.name != DATA:
        return None
    return ResolvedProgram.from_json(make_step(result.call, result.content).head.get("program"))


def list_steps(result: ToolResult) -> list[int]:
    """Return the numbers of the steps that a cell printed with a result."""
    printed = [make_step(result.call, result.content)] if '"step"' in result.content else []
    return [number for number, outcome in read_outcomes(printed).items() if not outcome.error]

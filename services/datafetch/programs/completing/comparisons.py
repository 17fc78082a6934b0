"""Comparisons that a question asks for and its program leaves to the reader: the difference of two values."""

from __future__ import annotations

from dataclasses import replace

from fathom.domain.programs.language import Call, Node, Reference
from fathom.services.datafetch.parser.mention import MentionKind, select
from fathom.services.datafetch.programs.completing.question import (
    Asked,
    Program,
    has_references,
    is_value,
    list_calls,
    rewrite,
    rewrite_program,
)
from fathom.services.datafetch.programs.wording.unused import COMPARED_BY


def complete_differences(asked: Asked) -> Program:
    """Return the program with the difference of its two values behind them, where the question asks for it."""
    is_asked = any(item.value == "spread" for item in select(asked.mentions, MentionKind.MEASURE))
    is_computed = any(one.name in COMPARED_BY for one in list_calls(asked.program))
    if not is_asked or is_computed or has_references(asked.program):
        return asked.program
    if not all(map(is_value, asked.program)) or len({step.name for step in asked.program}) != 1:
        return asked.program
    groups = [one for one in list_calls(asked.program) if one.name == "each"]
    if len(asked.program) == 2 and not groups:
        return (*asked.program, Call("minus", (Reference(1), Reference(2))))
    if len(asked.program) != 1 or len({one.arguments for one in groups}) != 1 or len(groups[0].arguments) != 2:
        return asked.program
    first, second = (choose_member(asked.program[0], at) for at in range(2))
    return (*asked.program, Call("minus", (first, second)))


def choose_member(step: Call, at: int) -> Node:
    """Return a step of a group for one of its members."""

    def change(call: Call) -> Node | None:
        return call.arguments[at] if call.name == "each" else None

    return rewrite(step, change)


def correct_shares(asked: Asked) -> Program:
    """Return the program in which an excess of the highest over the lowest value is a percentage of the lower one."""
    is_excess = any(item.value == "spread" for item in select(asked.mentions, MentionKind.MEASURE))

    def change(call: Call) -> Node | None:
        names = [one.name for one in call.arguments if isinstance(one, Call)]
        is_turned = call.name == "pct" and names == ["maximum", "minimum"]
        return replace(call, arguments=call.arguments[::-1]) if is_turned and is_excess else None

    return rewrite_program(asked.program, change)

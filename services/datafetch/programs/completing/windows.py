"""The length right before a measure as the window in which it moves: "60-day volatility", 20日均线."""

from __future__ import annotations

from types import MappingProxyType

from fathom.domain.programs.language import Call, Node, Quote, Word
from fathom.services.datafetch.parser.mention import Mention, MentionKind, overlap
from fathom.services.datafetch.programs.completing.question import (
    SOURCES,
    Asked,
    Program,
    has_references,
    list_calls,
    rewrite_program,
)
from fathom.services.datafetch.programs.resolve import GapReason
from fathom.services.datafetch.programs.wording.windows import is_length

# The function of each measure that moves with the day, and those by which a program has the measure of a whole period.
MOVING = MappingProxyType(
    {
        "volatility": ("rolling_vol", "vol"), "moving_average": ("average", "mean"), "mean": ("average", "mean"),
        "return": ("rolling_ret", "ret"), "growth": ("rolling_ret", "ret"), "change": ("rolling_ret", "ret"),
    }
)  # fmt: skip
# Words beside a moving measure that say no other one.
BESIDE = frozenset({"rolling", "annualized"})
PICKED = MappingProxyType({"max": "maximum", "min": "minimum"})
# What is asked of a line whatever it measures; beside other functions nobody could tell which of them has the window.
NEUTRAL = frozenset({
    "within", "between", "after", "before", "recent", "at", "maximum", "minimum", "median", "every", "first", "last",
    "top", "bottom", "count_if", "share_if", "first_if", "last_if", "longest", "summary", "item", "each", "rank",
    "start", "end", "when", "earlier", "later", "moves",
})  # fmt: skip


def complete_windows(asked: Asked) -> Program:
    """Return the program with the one length that no step uses as the window of the measure behind it."""
    lengths = [
        item for item in asked.select_unused(MentionKind.PARAMETER, GapReason.UNUSED_NUMBER) if is_length(item.value)
    ]
    measure = find_measure(asked, lengths[0]) if len(lengths) == 1 else None
    if measure is None:
        return asked.program
    count, _, units = lengths[0].value.partition(" ")
    moving, whole = MOVING[measure.value]
    unit = units.removesuffix("s")
    # An average is one of observations: of 20 days only a daily series has 20.
    if not count.isdigit() or (moving == "average" and unit != asked.find_unit()):
        return asked.program
    length = (Quote(count),) if moving == "average" else (Quote(count), Word(unit))
    return move_windows(asked, Call(moving, length), whole)


def find_measure(asked: Asked, length: Mention) -> Mention | None:
    """Return the measure behind a length, from which no name and no period parts it."""
    behind = [item for item in asked.mentions if item.start >= length.end]
    for item in sorted(behind, key=lambda one: (one.start, one.kind != MentionKind.MEASURE)):
        if item.kind == MentionKind.MEASURE and item.value not in BESIDE:
            return item if item.value in MOVING else None
        # "60-day return" names the price that returns are of by the same words.
        is_same = any(overlap(item.span, one.span) for one in behind if one.kind == MentionKind.MEASURE)
        if item.kind in (MentionKind.ENTITY, MentionKind.PERIOD, MentionKind.INDICATOR) and not is_same:
            return None
    return None


def move_windows(asked: Asked, moving: Call, whole: str) -> Program:
    """Return the program whose series are measured by a moving function; ``whole`` has the measure of all days."""
    program = drop_whole(asked, whole)
    names = {one.name for one in list_calls(program)}
    if not names <= NEUTRAL | SOURCES | {whole} or sum(one.name == whole for one in list_calls(program)) > 1:
        return asked.program

    def change(call: Call) -> Node | None:
        # The moves of each day are what such a measure is made of.
        if call.name == "moves":
            call = call.arguments[0] if isinstance(call.arguments[0], Call) else call
        is_source = call.name in SOURCES
        return Call(moving.name, (call, *moving.arguments)) if is_source else None

    return rewrite_program(tuple(choose_value(asked, step, whole) for step in program), change)


def drop_whole(asked: Asked, whole: str) -> Program:
    """Return the program without the measure of all days where another step has what is asked of the moving one."""
    others = tuple(step for step in asked.program if step.name != whole)
    return others if others and not has_references(asked.program) else asked.program


def choose_value(asked: Asked, step: Call, whole: str) -> Call:
    """Return what is asked of a moving measure in place of its value over all days: an extreme, a day's, or all."""
    if step.name != whole or not isinstance(step.arguments[0], Call):
        return step
    line = step.arguments[0]
    picked = {PICKED[item.value] for item in asked.mentions if item.value in PICKED}
    if len(picked) == 1:
        return Call(picked.pop(), (line,))
    days = [item.value.split("/") for item in asked.mentions if item.kind == MentionKind.PERIOD]
    is_day = len(days) == 1 and days[0][0] == days[0][-1] and line.name == "within"
    return Call("at", line.arguments) if is_day else line

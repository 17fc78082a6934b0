"""Names that a question has and its program has not: members of a list, and what a follow-up asks of instead."""

from __future__ import annotations

from dataclasses import replace

from fathom.domain.programs.language import Call, Node
from fathom.services.datafetch.parser.lexicon import cue
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.datafetch.programs.catalogue import HOME
from fathom.services.datafetch.programs.completing.question import (
    SOURCES,
    Asked,
    Program,
    list_calls,
    make_series,
    rewrite_program,
)
from fathom.services.datafetch.programs.resolve import PRICES, GapReason

# Changes of an amount, which inflation is taken out of.
CHANGES = frozenset({"ret", "cagr"})


def complete_lists(asked: Asked) -> Program:
    """Return the program whose group has all names of the list that it has some of."""
    unused = asked.select_unused(MentionKind.ENTITY, GapReason.UNUSED_NAME)
    groups = [one for one in list_calls(asked.program) if one.name == "each"]
    if not unused or not groups or len({one.arguments for one in groups}) != 1:
        return asked.program
    old: dict[str, Call] = {}
    indicators: set[str] = set()
    for member in groups[0].arguments:
        found = asked.find(member.target) if isinstance(member, Call) and member.name == "series" else None
        if found is None or not isinstance(member, Call):
            return asked.program
        old[found.entity] = member
        indicators.add(found.indicator)
    runs = [run for run in list_runs(asked) if old.keys() <= {item.value for item in run}]
    if len(runs) != 1 or len(indicators) != 1 or len(old) < 2:
        return asked.program
    indicator, members = indicators.pop(), list[Call]()
    for item in runs[0]:
        new = asked.find_of(item.value, indicator)
        # One without the series of the others has to be named as missing, as it is.
        if new is None:
            return asked.program
        members.append(old.get(item.value) or make_series(asked.get_text(item), new))
    group = tuple(dict.fromkeys(members))

    def change(call: Call) -> Node | None:
        return replace(call, arguments=group) if call.name == "each" else None

    return rewrite_program(asked.program, change)


def list_runs(asked: Asked) -> list[list[Mention]]:
    """Return the entities that stand in one list, such as "A, B and C"."""
    runs: list[list[Mention]] = []
    for item in select(asked.mentions, MentionKind.ENTITY):
        if runs and cue("both").match(asked.question[runs[-1][-1].end : item.start]):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def complete_follow_ups(asked: Asked) -> Program:
    """Return the program of the figure that a follow-up names in place of the earlier one: "and the vacancy rate?"."""
    named = select(asked.mentions, MentionKind.INDICATOR, MentionKind.ENTITY)
    indicators = asked.select_unused(MentionKind.INDICATOR, GapReason.UNUSED_INDICATOR)
    targets, words = asked.list_targets(), {one.words for one in list_calls(asked.program) if one.name == "series"}
    if not asked.is_follow_up or named != indicators or len(indicators) != 1 or len(targets) != 1:
        return asked.program
    old, new = asked.find(targets[0]), asked.find_of(HOME, indicators[0].value)
    is_said = any(text in asked.question for text in words)
    if indicators[0].others or is_said or old is None or old.entity != HOME or new is None:
        return asked.program
    series = make_series(asked.get_text(indicators[0]), new)

    def change(call: Call) -> Node | None:
        return series if call.name == "series" else None

    return rewrite_program(asked.program, change)


def complete_owners(asked: Asked) -> Program:
    """Return the program of the name that a follow-up asks of, where it has a series by words that name none."""
    named = select(asked.mentions, MentionKind.ENTITY)
    unused = asked.select_unused(MentionKind.ENTITY, GapReason.UNUSED_NAME)
    series = {one for one in list_calls(asked.program) if one.name == "series"}
    if not asked.is_follow_up or len(unused) != 1 or named != unused or unused[0].others or len(series) != 1:
        return asked.program
    old = series.pop()
    known = asked.find(old.target)
    new = asked.find_of(unused[0].value, known.indicator) if known is not None else None
    others = select(asked.mentions, MentionKind.INDICATOR)
    is_named = any(asked.get_text(item).casefold() in old.words.casefold() for item in others)
    # Words of an earlier question name what that was about, beside which this one may be meant.
    if new is None or is_named or old.words not in asked.question:
        return asked.program
    other = make_series(asked.get_text(unused[0]), new)

    def change(call: Call) -> Node | None:
        return other if call.name == "series" else None

    return rewrite_program(asked.program, change)


def complete_prices(asked: Asked) -> Program:
    """Return the program in constant prices where the question asks for them: "deflated by the CPI"."""
    is_asked = any(item.value == "real" for item in select(asked.mentions, MentionKind.MEASURE))
    indexes = asked.select_unused(MentionKind.INDICATOR, GapReason.UNUSED_INDICATOR)
    targets = asked.list_targets()
    is_plain = all(one.name != "real" for one in list_calls(asked.program)) and PRICES[1] not in targets
    is_change = len(asked.program) == len(targets) == 1 and asked.program[0].name in CHANGES
    # 实际 is "actually" as well: of prices it speaks beside their index alone.
    if not (is_asked and is_plain and is_change and any(item.value == PRICES[1] for item in indexes)):
        return asked.program

    def change(call: Call) -> Node | None:
        return Call("real", (call,)) if call.name in SOURCES else None

    return rewrite_program(asked.program, change)

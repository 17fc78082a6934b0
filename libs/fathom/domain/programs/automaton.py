"""Stack automaton over the signatures of the functions, which says what token of a program may follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from fathom.domain.programs.language import (
    CLOSE,
    EITHER,
    END,
    EURO,
    GROUPS,
    LINES,
    LITERALS,
    MOST_STEPS,
    SIGNATURES,
    SPAN,
    SPECIAL,
    WORDS,
    split_signature,
)

# Calls within calls; real questions have six.
MOST_DEPTH = 9
# Distinct frames that are remembered: functions by the number of their arguments so far. The names that may follow one
# take up to 8 KB: this is 4 MB at most.
REMEMBERED = 512
DATES = frozenset({"start", "end", "later", "earlier", "when"})
LISTS = frozenset({"crossings", "top", "bottom", "rank", "summary"})
POINTS = frozenset(SIGNATURES) - LINES - DATES - LISTS
# Arguments of a portfolio behind its last word.
ENDED = 100


def open_calls(names: frozenset[str]) -> frozenset[str]:
    return frozenset(f"{name}(" for name in names)


NUMBERS = frozenset(f"#{number}" for number in LITERALS)
NAMED = frozenset({"series(", "members("})
STARTS: Mapping[str, frozenset[str]] = {
    **WORDS,
    "S": frozenset({SPAN}),
    "@": frozenset(f"@{group}" for group in GROUPS),
    "L": NAMED | open_calls(LINES | EITHER),
    "P": frozenset({SPAN}) | open_calls(DATES | POINTS | {"item", "magnitude"}),
    "N": frozenset({SPAN}) | NUMBERS | open_calls(POINTS | {"magnitude"}),
    "R": frozenset({EURO, "series("}),
    "X": frozenset({SPAN}) | NUMBERS | NAMED | open_calls(frozenset(SIGNATURES) - DATES),
}
# Kinds of arguments that an earlier step can be.
REFERRING = frozenset("LPNRX")

Frame = tuple[str, int]


@dataclass(frozen=True)
class State:
    """The calls that are open, each with the number of its arguments so far, and the number of finished steps."""

    stack: tuple[Frame, ...] = ()
    steps: int = 0

    @property
    def next_tokens(self) -> frozenset[str]:
        """Return the tokens that may follow."""
        return list_allowed(self.stack[-1] if self.stack else None, len(self.stack) > MOST_DEPTH, self.steps)

    def push(self, token: str) -> State:
        """Return the state behind a token that is allowed."""
        if token.endswith("("):
            return State((*self.stack, (token[:-1], 0)), self.steps)
        if token == END:
            return self
        if token == CLOSE:
            rest = self.stack[:-1]
            return State(count_argument(rest, ""), self.steps) if rest else State((), self.steps + 1)
        return State(count_argument(self.stack, token), self.steps)


def count_argument(stack: tuple[Frame, ...], token: str) -> tuple[Frame, ...]:
    """Return the stack behind one more argument of the innermost call."""
    name, count = stack[-1]
    count += 1
    if token in WORDS["F"]:
        # The unit of time is the last argument, also where others before it are left out.
        if name == "portfolio":
            count = ENDED
        elif name in ("sharpe", "sortino"):
            count = 3
    return (*stack[:-1], (name, count))


@lru_cache(maxsize=REMEMBERED)
def list_allowed(frame: Frame | None, is_deep: bool, steps: int) -> frozenset[str]:
    """Return the tokens that may follow within the innermost open call, or between steps."""
    if frame is None:
        found = {END} if steps else set()
        if steps < MOST_STEPS:
            found |= open_calls(frozenset(SIGNATURES) - DATES | SPECIAL) | NAMED
        return frozenset(found)
    kinds, may_end = find_wanted(frame)
    found = {CLOSE} if may_end else set()
    for kind in kinds:
        found |= STARTS[kind]
        if kind in REFERRING:
            found |= {f"_{step}" for step in range(1, min(steps, MOST_STEPS) + 1)}
    return frozenset(token for token in found if not (is_deep and token.endswith("(")))


def find_wanted(frame: Frame) -> tuple[frozenset[str], bool]:
    """Return the kinds that the next argument of a call may have, and whether the call may end here."""
    name, count = frame
    if name in ("series", "when"):
        return frozenset("S"), count > 0
    if name == "members":
        return frozenset(("S", "@", "")[min(count, 2)]), count >= 2
    if name in SPECIAL:
        return frozenset("S"), True
    if name == "each":
        return frozenset("X"), count >= 1
    if name == "portfolio":
        return find_wanted_share(count)
    kinds = split_signature(name)
    least = sum(not kind.endswith("?") for kind in kinds)
    if count >= len(kinds):
        return frozenset(), True
    wanted = {kinds[count][0]}
    if kinds[count].endswith("?"):
        wanted |= {kind[0] for kind in kinds[count:]}
    return frozenset(wanted), count >= least


def find_wanted_share(count: int) -> tuple[frozenset[str], bool]:
    """Return what ``find_wanted`` does for a portfolio: shares and lines in turn, at least two of each."""
    if count >= ENDED:
        return frozenset(), True
    is_whole = count >= 4 and count % 2 == 0
    return frozenset("NF" if is_whole else "NL"[count % 2]), is_whole

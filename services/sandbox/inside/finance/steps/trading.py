"""Rules of trading that are tried on the past."""

from __future__ import annotations

from itertools import product
from typing import Any

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.steps.statistics import check_returns
from fathom.services.sandbox.inside.finance.steps.transforms import measure_ratio
from fathom.services.sandbox.inside.finance.steps.values import Line, Point, map_members, read_count, write_note

# Lengths that are usual, tried where the question names none.
SHORT_LENGTHS, LONG_LENGTHS = (5, 10, 20, 50), (10, 20, 50, 100, 200)


@map_members
def crossover(line: Line, short: Any = None, long: Any = None) -> Point:
    """Return the % gained over the window by holding the line only while its short average is above its long one.

    The averages of one day decide on the next: nothing is known that was not known then. Before there are as many
    values as the long average needs nothing is held, and what is not held earns nothing; no costs. Without lengths the
    best of the usual pairs is taken, with hindsight, and the convention says so. Raise ``InvalidArgument`` naming the
    argument for one length without the other, a short one that is not the shorter, and lines without returns.
    """
    check_returns(line)
    held, base = line.take_held()
    if (short is None) != (long is None):
        raise InvalidArgument("long" if long is None else "short", "is needed beside the other length")
    if short is None:
        pairs = [pair for pair in product(SHORT_LENGTHS, LONG_LENGTHS) if pair[0] < pair[1] < len(line.values)]
        if not pairs:
            raise InvalidArgument("line", f"{line.name} has {len(line.values)} values, too few for moving averages")
    else:
        pairs = [(read_count(short, "short"), read_count(long, "long"))]
        if pairs[0][0] >= pairs[0][1]:
            raise InvalidArgument("short", f"is {pairs[0][0]}, not below the long one, {pairs[0][1]}")
        if pairs[0][1] > len(line.values):
            raise InvalidArgument("long", f"is {pairs[0][1]}, and {line.name} has {len(line.values)} values")
    # Several pairs are compared by what they would have gained: that is hindsight, and no forecast.
    gains = {pair: measure_gain(line.values, held, *pair) for pair in pairs}
    best = max(gains, key=lambda pair: gains[pair])
    note = write_note(
        "crossover", short=best[0], long=best[1], base=base,
        chosen=choose_note(len(pairs)), held=f"{(measure_ratio(held.iloc[0], held.iloc[-1], 'line') - 1) * 100:.2f}",
    )  # fmt: skip
    return line.make_point(gains[best], held.index[-1], unit="%", first=held.index[0], notes=(note,))


def choose_note(count: int) -> tuple[str, str]:
    """Return how the pair of lengths was chosen among a number of pairs, in English and Chinese."""
    if count == 1:
        return "", ""
    return f", the best of {count} usual pairs, chosen with hindsight", f"（事后从{count}组常用参数中选出的最优者）"


def measure_gain(values: Any, held: Any, short: int, long: int) -> float:
    """Return the % gained over ``held``, whose first value is the base, by the rule on the whole history ``values``."""
    # On the whole history: a window of a month would never have a mean of 200 days.
    is_above = values.rolling(short).mean() > values.rolling(long).mean()
    growth = (held / held.shift(1)).iloc[1:]
    # The close that makes the signal is not the price at which one could still buy.
    was_above = is_above.shift(1, fill_value=False).reindex(growth.index)
    return float((growth.where(was_above, 1.0).prod() - 1) * 100)

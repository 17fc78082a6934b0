"""Scores of answers to the items of a set: the share of the reference's computed figures that an answer states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.grading.text import numbers
from fathom.domain.intervals import bootstrap_mean
from fathom.operations.evaluation.items import KINDS, LANGUAGES, Figure, Item

# Relative: "about 34 %" is 33.9 %, and 33 % is not.
CLOSE = 0.005


@dataclass(frozen=True)
class Answer:
    """Answer to an item: its text, how many of its figures no material supports, and whether the run finished."""

    item: str
    text: str
    unsupported: int = 0
    is_finished: bool = True


@dataclass(frozen=True)
class Score:
    """Figures of an item: how many the reference has, and which the answer lacks, as the reference writes them."""

    item: Item
    answer: Answer
    lacks: tuple[str, ...]
    wanted: int

    @property
    def share(self) -> float:
        """Return the share of the figures that the answer states."""
        return 1 - len(self.lacks) / self.wanted


@dataclass(frozen=True)
class Line:
    """Line of the table: means over some items, with the 95 % interval of the first, drawn by items."""

    name: str
    items: int
    share: float
    low: float
    high: float
    finished: int
    unsupported: int


def score_answer(item: Item, answer: Answer) -> Score:
    """Score an answer; only what it says in words counts, not the cells of a table that it places."""
    stated = numbers(answer.text)
    wanted = [figure for figure in item.figures if figure.is_scored]
    lacks = tuple(f"{figure.written} {figure.unit}".strip() for figure in wanted if not is_stated(figure, stated))
    return Score(item, answer, lacks, len(wanted))


def is_stated(figure: Figure, stated: Sequence[float]) -> bool:
    """Return True when one of the numbers is the figure, in its own unit or in plain numbers; signs do not count.

    A fall may be written with its sign or as a loss, and a unit of the table's ("thousand") may be left to its head.
    """
    # "3.2" with the unit "billion" is 3.2 where a table says billions, and 3,200,000,000 in a sentence.
    plain, scaled = numbers(figure.written)[0], numbers(f"{figure.written} {figure.unit}")[0]
    # Half of the last digit that the reference writes: an answer with more digits must round to it.
    rounding = 0.5 * 10 ** -len(figure.written.partition(".")[2])
    return any(
        abs(abs(number) - abs(value)) <= max(CLOSE * abs(value), rounding * abs(value / plain) if plain else rounding)
        for value in {plain, scaled}
        for number in stated
    )


def summarise_scores(scores: Sequence[Score], seed: int = 0) -> list[Line]:
    """Return a line for each kind and language that has answers, and one for all."""
    groups = {
        name: [one for one in scores if name in (one.item.kind, one.item.language)] for name in (*KINDS, *LANGUAGES)
    }
    groups["all"] = list(scores)
    return [summarise_group(name, group, seed) for name, group in groups.items() if group]


def summarise_group(name: str, scores: Sequence[Score], seed: int) -> Line:
    """Return the line of some items; each item counts alike, however many figures it has."""
    # Over items and not over figures: the figures of one item stand or fall together.
    low, high = bootstrap_mean([[one.share] for one in scores], seed=seed)
    return Line(
        name,
        len(scores),
        sum(one.share for one in scores) / len(scores),
        low,
        high,
        sum(one.answer.is_finished for one in scores),
        sum(one.answer.unsupported for one in scores),
    )


def format_lines(lines: Sequence[Line]) -> str:
    """Format the table."""
    head = f"{'items':<12}{'n':>4}{'figures':>10}{'95 %':>18}{'finished':>10}{'unsupported':>13}"
    rows = [
        f"{one.name:<12}{one.items:>4}{one.share:>10.1%}{f'{one.low:.1%} to {one.high:.1%}':>18}{one.finished:>10}"
        f"{one.unsupported:>13}"
        for one in lines
    ]
    return "\n".join([head, *rows])

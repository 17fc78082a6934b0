"""Threads of a conversation: which turn follows which, where a question was asked again, or otherwise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from sqlalchemy import Connection, select

from fathom.services.memory.schema import TURNS


def load_thread(db: Connection, tenant: str, conversation: str, through: int = 0) -> list[int]:
    """Return the numbers of a turn and of those that lead to it, oldest first; 0 is the newest turn.

    A turn that is gone is replaced by the nearest before it, so that a conversation of which a user's turns were erased
    keeps the others.
    """
    own = (TURNS.c.tenant == tenant, TURNS.c.conversation == conversation)
    query = select(TURNS.c.number, TURNS.c.parent).where(*own).order_by(TURNS.c.number)
    rows = db.execute(query.where(TURNS.c.number <= through) if through else query).all()
    numbers = [number for number, _ in rows]
    parents = {number: read_parent(number, parent) for number, parent in rows}
    thread, here = [], numbers[-1] if numbers else 0
    while here:
        thread.append(here)
        here = find_nearest(numbers, parents[here])
    return thread[::-1]


def cut_page(thread: Sequence[int], after: int, size: int, *, is_newest_first: bool) -> list[int]:
    """Return the numbers of one page of a thread, which is oldest first; ``after`` is the last of the page before."""
    if is_newest_first:
        return [number for number in reversed(thread) if not after or number < after][:size]
    return [number for number in thread if number > after][:size]


def read_parent(number: int, parent: int | None) -> int:
    """Return the turn that a turn follows; those stored before there were threads follow the one before them."""
    return number - 1 if parent is None else parent


def find_nearest(numbers: Sequence[int], number: int) -> int:
    """Return the largest of some ascending numbers that is not above ``number``; 0 for none."""
    place = bisect_right(numbers, number)
    return numbers[place - 1] if place else 0

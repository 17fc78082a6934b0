"""Control groups that are still busy when their session ends are removed later, and none is forgotten."""

from __future__ import annotations

from collections.abc import Callable

from fathom.services.sandbox.supervisor.host.cgroups import Cgroups


class BusyGroup:
    """A group that is busy until it is asked for the second time, and says when it is asked."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self.asked, self.times = asked, 0

    def remove(self) -> bool:
        self.times += 1
        if self.times > 1:
            self.asked()
        return self.times > 1


def test_a_session_that_ends_during_a_sweep_has_its_group_removed_by_the_next() -> None:
    """The sweep made a new list of what was left, in which what another thread had added meanwhile was missing."""
    groups = Cgroups()
    late = BusyGroup()
    first = BusyGroup(asked=lambda: groups.remove(late))  # type: ignore[arg-type]  # in the shape of a Group
    groups.remove(first)  # type: ignore[arg-type]  # in the shape of a Group
    groups.sweep()
    assert (first.times, late.times) == (2, 1)
    groups.sweep()
    assert late.times == 2
    groups.sweep()
    assert (first.times, late.times) == (2, 2), "what is removed is asked no more"

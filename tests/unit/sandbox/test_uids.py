"""Users of sessions: no two services on one machine give out the same."""

from __future__ import annotations

import os

import pytest

from fathom.errors import DependencyFailed
from services.sandbox.process import LAST_UID, Uids

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run sessions as other users")
BASE = 64_000


def test_services_take_blocks_of_their_own_and_leave_them() -> None:
    first, second = Uids(BASE, 2), Uids(BASE, 2)
    assert [first.take(), first.take()] == [BASE, BASE + 1]
    assert [second.take(), second.take()] == [BASE + 2, BASE + 3]
    with pytest.raises(DependencyFailed, match="no free user"):
        second.take()
    first.close()
    third = Uids(BASE, 2)
    assert third.take() == BASE
    for uids in (second, third):
        uids.close()


def test_a_range_that_is_full_is_named() -> None:
    last = Uids(LAST_UID, 1)
    with pytest.raises(DependencyFailed, match=f"no free block of 1 users from {LAST_UID} on"):
        Uids(LAST_UID, 1)
    last.close()

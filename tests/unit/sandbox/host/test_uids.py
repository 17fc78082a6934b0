"""Users of sessions: no two services on one machine give out the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.inside.jail import kernel
from fathom.services.sandbox.supervisor.host.uids import LAST_UID, UidPool, find_lock_folder, has_processes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run sessions as other users")
BASE = 64_000


def test_services_lend_different_users_however_many_each_has() -> None:
    first, second = UidPool(BASE), UidPool(BASE + 1)
    assert [first.lend(), second.lend(), first.lend(), second.lend()] == [BASE, BASE + 1, BASE + 2, BASE + 3]
    first.give_back(BASE)
    third = UidPool(BASE)
    assert [third.lend(), third.lend()] == [BASE, BASE + 4]
    for uids in (first, second, third):
        uids.close()


def test_a_service_in_another_network_lends_different_users() -> None:
    here = UidPool(BASE)
    uid = here.lend()
    pid = os.fork()
    if pid == 0:
        kernel.unshare(kernel.CLONE_NEWNET)
        os._exit(0 if UidPool(BASE).lend() not in (uid, -1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    here.close()


def test_a_user_that_runs_something_is_not_lent() -> None:
    with subprocess.Popen(["sleep", "60"], user=BASE, group=BASE) as process:
        assert has_processes(BASE)
        uids = UidPool(BASE)
        assert uids.lend() == BASE + 1
        process.kill()
    assert not has_processes(BASE)
    uids.close()


def test_a_kernel_that_answers_for_its_caller_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As gVisor's does, whatever user is asked for.
    monkeypatch.setattr(os, "getpriority", lambda which, who: 0)
    assert not has_processes(BASE)
    assert has_processes(0)


def test_a_range_that_is_used_up_is_named() -> None:
    last = UidPool(LAST_UID)
    assert last.lend() == LAST_UID
    with pytest.raises(DependencyFailed, match=f"no free user for a session from {LAST_UID} to {LAST_UID}"):
        UidPool(LAST_UID).lend()
    last.give_back(LAST_UID)
    assert last.lend() == LAST_UID
    last.close()


def test_locks_lie_where_nobody_else_can_write(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    (shared / "fathom-sandbox-users").mkdir(parents=True)
    (shared / "fathom-sandbox-users").chmod(0o777)
    own.mkdir()
    assert find_lock_folder((f"{tmp_path}/missing", str(shared), str(own))) == own / "fathom-sandbox-users"
    with pytest.raises(DependencyFailed, match="must belong to user 0 and be writable by nobody else"):
        find_lock_folder((str(shared),))

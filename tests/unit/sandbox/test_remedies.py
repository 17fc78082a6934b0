"""Test what a wall that cannot be built is answered with: the cause that this place shows, and no other."""

from __future__ import annotations

import errno

import pytest

from fathom.services.sandbox.supervisor.isolation.remedies import (
    APPARMOR,
    USERS_LIMIT,
    USERS_SWITCH,
    HostFacts,
    find_remedy,
    read_host_facts,
)

USER = HostFacts(root=False)


@pytest.mark.parametrize(
    ("stage", "code", "place", "says"),
    # The kernel's error at a stage and what the host is; the remedy must name the switch that holds there.
    [
        (
            "namespaces",
            errno.ENOSPC,
            HostFacts(root=True, switches=((USERS_LIMIT, "0"),)),
            f"{USERS_LIMIT}=15000 (it is 0,",
        ),
        ("namespaces", errno.EPERM, HostFacts(root=False, switches=((USERS_SWITCH, "0"),)), f"{USERS_SWITCH}=1"),
        ("root file system", errno.EACCES, HostFacts(root=False, switches=((APPARMOR, "1"),)), f"{APPARMOR}=0"),
        ("root file system", errno.EPERM, HostFacts(root=True, pod=True), "procMount: Unmasked"),
        ("namespaces", errno.EPERM, HostFacts(root=True, container=True), "in a container"),
        ("namespaces", errno.EPERM, HostFacts(root=True, filtered=True), "seccomp filter"),
        ("namespaces", errno.EPERM, USER, "SELinux"),
        ("namespaces", errno.EINVAL, USER, "CONFIG_USER_NS"),
        ("root file system", errno.EEXIST, HostFacts(root=True, pod=True), "the error names the path"),
        ("scratch folder", errno.ENOENT, USER, "the error names the path"),
        ("landlock", errno.ENOSYS, USER, "lsm="),
    ],
)
def test_a_remedy_fits_the_error_and_the_place(stage: str, code: int, place: HostFacts, says: str) -> None:
    found = find_remedy(stage, code, place)
    assert says in found
    # A pod's remedy on a laptop, or at another error, sends its reader the wrong way.
    assert ("procMount" in found) is (place.pod and says == "procMount: Unmasked")


def test_a_switch_that_binds_other_users_only_is_not_blamed_for_roots_trouble() -> None:
    place = HostFacts(root=True, switches=((USERS_SWITCH, "0"), (APPARMOR, "1")))
    assert "sysctl" not in find_remedy("namespaces", errno.EPERM, place)


def test_this_machine_can_be_looked_at() -> None:
    # The limit of user namespaces is there on every kernel that has them.
    assert read_host_facts().switch(USERS_LIMIT).isdigit()

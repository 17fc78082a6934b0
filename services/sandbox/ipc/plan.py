"""Plan of one session, which the supervisor sends to the fork server: a record of fixed fields, no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

# A plan has fixed fields and short paths; a longer datagram is not one.
MAX_BYTES = 16_384
WALLS = ("namespace", "landlock", "seccomp", "none")
"""Walls from strongest to weakest. ``seccomp`` is what remains in a guest kernel that has no Landlock."""
HOME = "/home/session"
# Every session has the same user inside, whatever host user stands behind it.
INSIDE_UID = 1000


def build_home_variables(home: str) -> dict[str, str]:
    """Return the environment variables that name a session's home folder, which holds its temporary files too."""
    return {
        "HOME": home,
        "TMPDIR": home,
        "IPYTHONDIR": f"{home}/.ipython",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
    }


@dataclass(frozen=True)
class SessionPlan:
    """Description of the walls of one session.

    ``walls``: one of ``WALLS``. ``uid``: host user and group of the worker, -1 for the service's
    own. ``limits``: resource limits by name, bytes or counts. ``scratch``: host folder at levels without a
    file system of their own, else "". Sizes are in bytes. ``processes``: how many, with their threads, there may be.
    ``cgroups``: ``cgroup.procs`` files to join.
    """

    walls: str
    uid: int
    limits: Mapping[str, int]
    scratch: str
    scratch_bytes: int
    scratch_files: int
    shm_bytes: int
    processes: int
    cgroups: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> SessionPlan:
        """Return the plan; raise ``ValueError`` for anything but a whole record."""
        record = json.loads(data)
        if set(record) != {field.name for field in fields(cls)} or record["walls"] not in WALLS:
            raise ValueError("no plan")
        return cls(**{**record, "cgroups": tuple(record["cgroups"])})

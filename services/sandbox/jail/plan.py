"""What the supervisor asks of the fork server for one session: a record of fixed fields, no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

MAX_BYTES = 16_384
WALLS = ("namespace", "landlock", "seccomp", "none")
"""From strongest to weakest. ``seccomp`` is what is left inside a kernel of its own that has no Landlock."""
HOME = "/home/session"
INSIDE_UID = 1000


def home_variables(home: str) -> dict[str, str]:
    """Return the environment's names for a session's home folder, which holds its temporary files too."""
    return {"HOME": home, "TMPDIR": home, "IPYTHONDIR": f"{home}/.ipython"}


@dataclass(frozen=True)
class Plan:
    """How to wall in one session.

    ``walls``: one of ``WALLS``. ``uid``: host user and group of the worker, -1 for the service's
    own. ``limits``: resource limits by name, bytes or counts. ``scratch``: host folder at levels without a
    file system of their own, else "". Sizes are in bytes. ``cgroups``: ``cgroup.procs`` files to join.
    """

    walls: str
    uid: int
    limits: Mapping[str, int]
    scratch: str
    scratch_bytes: int
    scratch_files: int
    shm_bytes: int
    cgroups: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan:
        """Raises ``ValueError`` for anything but a whole record."""
        record = json.loads(data)
        if set(record) != {field.name for field in fields(cls)} or record["walls"] not in WALLS:
            raise ValueError("no plan")
        return cls(**{**record, "cgroups": tuple(record["cgroups"])})

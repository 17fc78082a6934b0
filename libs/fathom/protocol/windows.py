"""Names of what becomes of earlier steps when a request grows too long, for whoever asks by name (row M06)."""

from __future__ import annotations

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.errors import InvalidField

STEP_POLICIES = {
    "off": pb.STEP_POLICY_OFF,
    "delete": pb.STEP_POLICY_DELETE,
    "summarize": pb.STEP_POLICY_SUMMARIZE,
    "hybrid": pb.STEP_POLICY_HYBRID,
}


def window_of(policy: str = "", tokens: int = 0) -> pb.Window:
    """The window of a request, "" and 0 for the server's own; raises ``InvalidField("window")`` for another name."""
    if policy and policy not in STEP_POLICIES:
        raise InvalidField("window", f"{policy!r} is not one of {', '.join(STEP_POLICIES)}")
    return pb.Window(policy=STEP_POLICIES.get(policy, pb.STEP_POLICY_UNSPECIFIED), tokens=tokens)

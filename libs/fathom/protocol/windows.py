"""Names of the policies for earlier steps when a request exceeds the context window."""

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
    """Return the window settings of a request; "" and 0 select the server's own.

    Raises ``InvalidField("window")`` for an unknown policy.
    """
    if policy and policy not in STEP_POLICIES:
        raise InvalidField("window", f"{policy!r} is not one of {', '.join(STEP_POLICIES)}")
    return pb.Window(policy=STEP_POLICIES.get(policy, pb.STEP_POLICY_UNSPECIFIED), tokens=tokens)

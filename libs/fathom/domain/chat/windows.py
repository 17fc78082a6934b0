"""Names of a run's efforts, and of the policies for earlier steps when a request exceeds the context window."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import InvalidField

STEP_POLICIES = {
    "off": pb.STEP_POLICY_OFF,
    "delete": pb.STEP_POLICY_DELETE,
    "summarize": pb.STEP_POLICY_SUMMARIZE,
    "hybrid": pb.STEP_POLICY_HYBRID,
}

EFFORTS = {"quick": planner.EFFORT_QUICK, "standard": planner.EFFORT_STANDARD, "deep": planner.EFFORT_DEEP}


def effort_of(name: str) -> planner.Effort:
    """Return the effort of a name, "" for the server's own; raise ``InvalidField("effort")`` for an unknown one."""
    if name and name not in EFFORTS:
        raise InvalidField("effort", f"{name!r} is not one of {', '.join(EFFORTS)}")
    return EFFORTS.get(name, planner.EFFORT_UNSPECIFIED)


def window_of(policy: str = "", tokens: int = 0) -> pb.Window:
    """Return the window settings of a request; "" and 0 select the server's own.

    Raises ``InvalidField("window")`` for an unknown policy.
    """
    if policy and policy not in STEP_POLICIES:
        raise InvalidField("window", f"{policy!r} is not one of {', '.join(STEP_POLICIES)}")
    return pb.Window(policy=STEP_POLICIES.get(policy, pb.STEP_POLICY_UNSPECIFIED), tokens=tokens)

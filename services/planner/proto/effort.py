"""Conversion of efforts and budgets from ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.planner.model.effort import Asked, Effort

EFFORTS = {pb.EFFORT_QUICK: Effort.QUICK, pb.EFFORT_STANDARD: Effort.STANDARD, pb.EFFORT_DEEP: Effort.DEEP}
EFFORTS_BACK = {effort: value for value, effort in EFFORTS.items()}


def effort_from_proto(value: pb.Effort) -> Effort | None:
    """Return the effort, None for the server's default; raise ``InvalidField("effort")`` for an unknown one."""
    if value == pb.EFFORT_UNSPECIFIED:
        return None
    if value not in EFFORTS:
        raise InvalidField("effort", f"{value} is no effort")
    return EFFORTS[value]


def asked_from_proto(effort: pb.Effort, budget: pb.Budget) -> Asked:
    """Return what a run asks for, of which a resumption names the budget anew."""
    return Asked(effort_from_proto(effort), budget.max_rounds, budget.max_tokens, budget.max_ms)

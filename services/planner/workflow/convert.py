"""Conversion of routes to ``planner.v1`` messages."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.services.planner.questions.routing import Form, Mode, Route

# A direct question is the agent's as well: it answers at once, while the workflow would plan first.
PLAYED_BY = {
    Mode.DIRECT: pb.PROTOCOL_RESEARCH,
    Mode.WORKFLOW: pb.PROTOCOL_WORKFLOW,
    Mode.RESEARCH: pb.PROTOCOL_RESEARCH,
}
"""Protocol by mode."""
FORMS = {Form.ANSWER: planner.ANSWER_FORM_ANSWER, Form.REPORT: planner.ANSWER_FORM_REPORT}


def route_to_proto(found: Route, evidence: bool, chart: str) -> planner.RouteQuestionResponse:
    """Return the response of RouteQuestion."""
    return planner.RouteQuestionResponse(
        scene=f"SCENE_{found.scene.name}",
        confidence=found.confidence,
        mode=f"MODE_{found.mode.name}",
        protocol=PLAYED_BY[found.mode],
        reason=found.reason,
        unsure=not found.is_sure,
        needs_evidence=evidence,
        chart=chart,
        form=FORMS[found.form],
    )

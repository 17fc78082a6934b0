"""Choice of the protocol of a run and of the form of its answer, by what its question asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.services.planner.model.episode import Subject
from fathom.services.planner.questions.routing import Form, Route
from fathom.services.planner.runs.conversation import FollowedTurns, list_messages
from fathom.services.planner.runs.log.fold import StepFold
from fathom.services.planner.runs.repository import Header, as_of_run
from fathom.services.planner.workflow.convert import FORMS, PLAYED_BY
from fathom.services.planner.workflow.rewriting import Reading, Rewriter

FORMS_BACK = {value: form for form, value in FORMS.items()}


def choose_protocol(request: pb.RunRequest) -> tuple[trajectory.Protocol, bool]:
    """Return the protocol that a request asks for, and whether the question has a say in how it is answered.

    Where it is the question that decides on the protocol, the agent stands in, which can do all that the others do.
    """
    is_auto = request.protocol == trajectory.PROTOCOL_AUTO
    protocol = trajectory.PROTOCOL_RESEARCH if is_auto else request.protocol
    has_form = protocol != trajectory.PROTOCOL_SEARCH_R1 and "answer" not in request.prompts
    return protocol, has_form or is_routed(request)


def is_routed(request: pb.RunRequest) -> bool:
    """Return whether the question of a request decides on its protocol."""
    # Only the agent has a Python session for tables, and reads instructions.
    return request.protocol == trajectory.PROTOCOL_AUTO and not (request.table_ids or request.instructions)


@dataclass(frozen=True)
class RunRouter:
    """Router of runs by the classifier, which asks datafetch for vectors."""

    route: Callable[[str], Awaitable[Route]]
    find_form: Callable[[str], Awaitable[Form]]
    rewriter: Rewriter | None = None
    """Makes follow-ups whole; without one each question is routed by its own words."""
    find_subject: Callable[[str], Awaitable[Subject]] | None = None
    """Says what a question is about; without it none is about the data as such or the program."""

    async def settle(self, header: Header, followed: FollowedTurns) -> Header:
        """Return the header with the protocol and the form that its question asks for, after the turns before it."""
        request = header.run_request()
        if is_routed(request):
            understood = await self._understand(request, header.question, followed)
            found = await self.route(understood.question)
            header = replace(
                header,
                protocol=trajectory.Protocol.Name(PLAYED_BY[found.mode]),
                asked=None if understood.asked is None else asdict(understood.asked),
            )
            form = found.form
        else:
            # Whether a report is asked for is said in the question's own words.
            form = await self.find_form(header.question)
        return replace(header, form="" if "answer" in request.prompts else form.value, is_unrouted=False)

    async def _understand(self, request: pb.RunRequest, question: str, followed: FollowedTurns) -> Reading:
        """Return the question; a follow-up as the whole question that it stands for."""
        if not (request.conversation_id or request.history) or self.rewriter is None:
            return Reading(question)
        history = list_messages(request, followed)
        return await self.rewriter.rewrite(question, history, as_of=as_of_run(request))


def restore_route(header: Header, fold: StepFold, ended: trajectory.Trajectory | None) -> Header:
    """Return the header with the route that the run's log tells, or its last end; unchanged before it has one."""
    if not header.is_unrouted:
        return header
    if fold.started is not None:
        protocol, form = fold.started.protocol, FORMS_BACK.get(fold.started.form)
        return apply_route(header, protocol, "" if form is None else form.value)
    return header if ended is None else take_route(header, ended)


def take_route(header: Header, ended: trajectory.Trajectory) -> Header:
    """Return the header with the route by which a leg of the run was played."""
    if not header.is_unrouted:
        return header
    return apply_route(header, ended.protocol, Form.REPORT.value if ended.report else "")


def apply_route(header: Header, protocol: trajectory.Protocol, form: str) -> Header:
    return replace(header, protocol=trajectory.Protocol.Name(protocol), form=form, is_unrouted=False)

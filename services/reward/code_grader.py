"""The grader that runs a cell in the sandbox with its sheets injected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.clients.tables import embed_table
from fathom.core.errors import FathomError
from fathom.core.ids import new_id
from fathom.domain.grading import code_style
from fathom.domain.grading.graders import GRADERS, Grader, Item, Parameter, Score
from fathom.domain.grading.text import numbers
from fathom.services.reward.program_tests import find_program, read_tests, score_tests
from fathom.services.reward.request import Frame, GradingRequest
from fathom.transport.store import ObjectStore
from fathom.transport.store.base import StoredObject
from fathom.transport.store.refs import to_ref

# Time for the sandbox to stop a cell that is late and to report it, beyond the cell's own limit.
SPARE_S = 15.0
# Graders read the last number or a short text: more output only costs memory.
OUTPUT_CHARS = 65_536
WEIGHTS: Mapping[str, Parameter] = {
    "style_weight": Parameter(0.5, 1.0),
    "length_weight": Parameter(0.5, 1.0),
    "answer_weight": Parameter(1.0, 10.0),
    "hack_weight": Parameter(0.5, 1.0),
    "wall_s": Parameter(10.0, 120.0),
}


def reject_direct_call(item: Item) -> Score:
    """Raise ``NotImplementedError``: cells are graded by ``CodeGrader``."""
    raise NotImplementedError("code_run is graded by CodeGrader, which waits for the sandbox")


CODE_GRADERS: Mapping[str, Grader] = {
    "code_run": Grader(
        reject_direct_call,
        "Runs the cell in response in the sandbox with frames injected: execution * (style_weight * style + "
        "length_weight * length) + answer_weight * answer (with references) - hack_weight for any hack flag",
        WEIGHTS,
        references=False,
    ),
    "code_tests": Grader(
        reject_direct_call,
        "Runs the program in answer in the sandbox on the reference's tests, JSON of inputs and outputs; the share of "
        "the first tests (10) that it passes",
        {"tests": Parameter(10.0, 100.0), "wall_s": Parameter(10.0, 120.0)},
    ),
}


@dataclass(frozen=True)
class CellResult:
    """Result of a cell: whether it finished in time and without an exception, its output, and its status."""

    finished: bool
    stdout: str
    status: str
    duration_ms: int = 0
    infra: bool = False
    """True when the sandbox failed, not the code; such samples are to be masked in training."""
    is_late: bool = False
    """True for a cell that a limit has ended, after which its session may be another one."""


class CodeGrader:
    """Runs cells and programs through ``clients.sandbox``, several at once, each in a separate session."""

    def __init__(self, clients: Clients, concurrent: int, log: Any, store: ObjectStore | None = None) -> None:
        """Create the grader; with a ``store`` tables are read here, for sandboxes that cannot read it."""
        self._clients, self._log, self._store = clients, log, store
        self._places = asyncio.Semaphore(concurrent)

    async def grade(self, work: GradingRequest) -> Score | str:
        """Return the reward of the cell or program, or a message why the sandbox or the reference returned none."""
        # Taken before the session is opened: waiting cells must not hold sessions of the sandbox.
        async with self._places:
            return await (self._grade_program(work) if work.grader == "code_tests" else self._grade_cell(work))

    async def _grade_cell(self, work: GradingRequest) -> Score | str:
        wall_s = work.item.parameters["wall_s"]
        [ran] = await self._run_again([work.item.response], work.frames, wall_s)
        return f"the sandbox failed: {ran.status}" if ran.infra else compose_reward(work.item, ran)

    async def _grade_program(self, work: GradingRequest) -> Score | str:
        parameters, program = work.item.parameters, find_program(work.item.answer)
        try:
            tests = read_tests(work.item.references[0], program, max(1, round(parameters["tests"])))
        except ValueError as error:
            return str(error)
        runs = await self._run_again([test.cell for test in tests], (), parameters["wall_s"])
        if any(ran.infra for ran in runs):
            return f"the sandbox failed: {runs[-1].status}"
        # What came after a cell that did not end in time was not run, and has not passed.
        passed = [ran.finished and test.accepts(ran.stdout) for test, ran in zip(tests, runs, strict=False)]
        return score_tests([*passed, *[False] * (len(tests) - len(passed))])

    async def _run_again(self, cells: Sequence[str], frames: tuple[Frame, ...], wall_s: float) -> list[CellResult]:
        """Return the results of cells in one session; what the sandbox itself lost is run once more."""
        ran = [CellResult(False, "", "not run", infra=True)]
        for _ in range(2):
            try:
                ran = await self._run(cells, frames, wall_s)
            except FathomError as error:
                ran = [CellResult(False, "", str(error), infra=True)]
            if not any(one.infra for one in ran):
                break
        return ran

    async def _run(self, cells: Sequence[str], frames: tuple[Frame, ...], wall_s: float) -> list[CellResult]:
        """Run cells in order, until one does not end in time or the sandbox fails."""
        sandbox, wall_ms = self._clients.sandbox, max(10, round(wall_s * 1000))
        found: list[CellResult] = []
        # A session per item, so that none sees the state of another.
        async with self._session(wall_ms, len(cells)) as session:
            for frame in frames:
                await sandbox.put_frame(await embed_table(build_put_frame(session, frame), self._store))
            for code in cells:
                found.append(await self._execute(session, code, wall_s))
                if found[-1].infra or found[-1].is_late:
                    break
        return found

    async def _execute(self, session: str, code: str, wall_s: float) -> CellResult:
        wall_ms = max(10, round(wall_s * 1000))
        request = pb.ExecuteRequest(request_id=new_id("cell"), session_id=session, code=code, wall_ms=wall_ms)
        said: list[str] = []
        # A stream without an outcome is a failure of the sandbox, not of the code.
        outcome = pb.Outcome(status=pb.EXECUTE_STATUS_INFRA_ERROR)
        async for event in self._clients.sandbox.execute(request, timeout_s=wall_s + SPARE_S):
            if event.HasField("output") and event.output.stream == pb.OUTPUT_STREAM_STDOUT:
                said.append(event.output.text)
            elif event.HasField("display"):
                # A figure counts as output: a cell that only draws has not printed nothing.
                said.append("[figure]")
            elif event.HasField("outcome"):
                outcome = event.outcome
        status = pb.ExecuteStatus.Name(outcome.status).removeprefix("EXECUTE_STATUS_").lower()
        return CellResult(
            outcome.status == pb.EXECUTE_STATUS_OK,
            "".join(said)[:OUTPUT_CHARS],
            f"{status}: {outcome.error_name or outcome.cause}".rstrip(": "),
            outcome.duration_ms,
            outcome.status == pb.EXECUTE_STATUS_INFRA_ERROR,
            outcome.status not in (pb.EXECUTE_STATUS_OK, pb.EXECUTE_STATUS_ERROR),
        )

    @asynccontextmanager
    async def _session(self, wall_ms: int, cells: int) -> AsyncIterator[str]:
        request = pb.CreateSessionRequest(limits=pb.Limits(cell_wall_ms=wall_ms, cells=cells))
        session = (await self._clients.sandbox.create_session(request)).session_id
        try:
            yield session
        finally:
            try:
                await self._clients.sandbox.close_session(pb.CloseSessionRequest(session_id=session))
            except FathomError as error:  # it ends by itself when it is idle
                self._log.warning("a session could not be closed", session=session, error=str(error))


def build_put_frame(session: str, frame: Frame) -> pb.PutFrameRequest:
    request = pb.PutFrameRequest(session_id=session, name=frame.name)
    if isinstance(frame.data, StoredObject):
        request.ref.CopyFrom(to_ref(frame.data))
    else:
        request.arrow = frame.data
    return request


def compose_reward(item: Item, ran: CellResult) -> Score:
    """Compute ``e·(w_s·s + w_l·f) + w_a·task − w_h·[any hack flag]``; pure."""
    parts = code_style.code_reward(item.response, ran.finished, ran.stdout)
    weights = item.parameters
    total = parts.total(style=weights["style_weight"], length=weights["length_weight"], hack=weights["hack_weight"])
    answer = score_answer(item, ran) if item.references else 0.0
    components = {"style": parts.style, "length": parts.length, "execution": parts.execution, "answer": answer}
    components |= {"statements": float(parts.statements), "duration_ms": float(ran.duration_ms)}
    components |= {f"hack_{flag.replace('-', '_')}": 1.0 for flag in sorted(parts.hacks)}
    reason = "" if ran.finished else ran.status
    return Score(total + weights["answer_weight"] * answer, components, reason or ", ".join(sorted(parts.hacks)))


def score_answer(item: Item, ran: CellResult) -> float:
    """Score 1 when the cell's output contains a reference: as its last number, or as text; a failed cell scores 0."""
    if not ran.finished:
        return 0.0
    # A number is compared as a number, since cells print it in any format.
    name = "number" if any(numbers(reference) for reference in item.references) else "sub_em"
    defaults = {key: parameter.default for key, parameter in GRADERS[name].parameters.items()}
    return GRADERS[name].grade(replace(item, answer=ran.stdout, parameters=defaults)).value

"""Tool ``delegate``: runs a sub-question as a separate run; its answer and sources become material."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.proto.episode import material_from_proto
from fathom.services.planner.tools.data.sheets import describe_sheet
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables.listing import limit_columns
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema

# What the parent reads of a sub-run must leave room in its window for several of them.
ANSWER_CHARS, MAX_MATERIAL = 6_000, 24
CITATION = re.compile(r"\[(\d{1,3})\]")
# References as the answer grammar has them: ``{{table:sheet_1}}``, ``{{figure:fig_1}}``.
TABLE = re.compile(r"\{\{table:(\w+)\}\}")
FIGURE = re.compile(r"\{\{figure:\w+\}\}")


class SubRuns(Protocol):
    """Runner of sub-questions as separate runs."""

    def make_run_id(self, call_id: str) -> str:
        """Return the id of the run that answers a call."""
        ...

    async def ask(self, call_id: str, question: str) -> pb.RunFinished:
        """Start the run of a call, or join the existing one, and wait for its end; raises ``FathomError``."""
        ...


@dataclass(frozen=True)
class Delegate:
    """Delegation of a sub-question."""

    delegation: SubRuns
    session: Session

    name: ClassVar[str] = "delegate"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Gives one self-contained part of a large question to another researcher, who sees nothing of this"
        " conversation and answers with sources. Several may be asked at once. Not for what one call of a tool gives."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["question"],
        question={
            "type": "string",
            "minLength": 3,
            "maxLength": 2000,
            "description": "The sub-question with all that is needed to understand it: names, dates, units.",
        },
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        question = arguments["question"].strip()
        finished = await self.delegation.ask(call_id, question)
        run_id = self.delegation.make_run_id(call_id)
        return lambda first: self._make_reply(first, run_id, question, finished)

    def _make_reply(self, first: int, run_id: str, question: str, finished: pb.RunFinished) -> Reply:
        """Return the answer with its citations renumbered to the material of this run."""
        # A list in the place of an answer is none: the parent gets what it lists.
        answered = finished.HasField("answer") and finished.stop_reason == trajectory.STOP_REASON_FINISHED
        # An unanswered sub-run still found something; without an answer there is nothing to say which of it matters.
        kept = [item for item in finished.material if not answered or item.number in finished.answer.cited]
        numbers: dict[int, int] = {}
        variables: dict[str, str] = {}
        findings: list[NewMaterial] = []
        for message in kept[:MAX_MATERIAL]:
            finding = self._convert(message, run_id)
            numbers[message.number] = first + len(findings)
            if finding.kind is MaterialKind.SHEET:
                variables[message.variable] = finding.variable
            findings.append(finding)
        sheets = [
            describe_sheet(found.item, found.variable, first + place)
            for place, found in enumerate(findings)
            if found.kind is MaterialKind.SHEET
        ]
        head = {"run_id": run_id, "material": sorted(numbers.values()), "sheets": limit_columns(sheets)}
        if answered:
            text = rewrite_citations(finished.answer.markdown, numbers, variables)
            return Reply(ToolStatus.OK, head, shorten(text, ANSWER_CHARS), tuple(findings))
        why = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
        error = f"the sub-question was not answered ({why}){': ' + finished.error if finished.error else ''}"
        missing = {"subject": question, "reason": "SOURCE_FAILED", "detail": error}
        findings.append(NewMaterial(MaterialKind.MISSING, missing))
        return Reply(ToolStatus.FAILED, {**head, "error": error}, material=tuple(findings))

    def _convert(self, message: trajectory.Material, run_id: str) -> NewMaterial:
        """Convert a material of the sub-run.

        A sheet gets a variable in this run's session, code keeps its original run.
        """
        material = material_from_proto(message)
        if material.kind is MaterialKind.SHEET:
            return NewMaterial(MaterialKind.SHEET, material.item, self.session.put(material.item))
        if material.kind is MaterialKind.CODE:
            record = trajectory.CodeRecord.FromString(message.code.SerializeToString())
            record.run_id = record.run_id or run_id
            record.ClearField("figures")  # their names are those of the other run
            return NewMaterial(MaterialKind.CODE, record)
        return NewMaterial(material.kind, material.item)


def rewrite_citations(markdown: str, numbers: Mapping[int, int], variables: Mapping[str, str]) -> str:
    """Map citations and tables to this run's numbers and names; remove those without a counterpart."""
    cited = CITATION.sub(lambda match: f"[{numbers[int(match[1])]}]" if int(match[1]) in numbers else "", markdown)
    tables = TABLE.sub(lambda match: f"{{{{table:{variables[match[1]]}}}}}" if match[1] in variables else "", cited)
    # Figures stay with the run whose session drew them.
    return FIGURE.sub("", tables).strip()

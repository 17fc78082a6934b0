"""Tool ``delegate``: runs a sub-question as a separate run; its answer and sources become material."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from services.planner.convert import material_from_proto
from services.planner.delegation import Delegation, child_id
from services.planner.model import Kind, ToolState
from services.planner.tools.data import described
from services.planner.tools.session import Session
from services.planner.tools.tool import Finding, Numbered, Reply, schema, shortened

ANSWER_CHARS, MAX_MATERIAL, HEAD_CHARS = 6_000, 24, 8_000
CITATION = re.compile(r"\[(\d{1,3})\]")
TABLE = re.compile(r"\{\{table:(\w+)\}\}")
FIGURE = re.compile(r"\{\{figure:\w+\}\}")


@dataclass(frozen=True)
class Delegate:
    """Delegation of a sub-question."""

    delegation: Delegation
    session: Session

    name: ClassVar[str] = "delegate"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Gives one self-contained part of a large question to another researcher, who sees nothing of this"
        " conversation and answers with sources. Several may be asked at once. Not for what one call of a tool gives."
    )
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["question"],
        question={
            "type": "string",
            "minLength": 3,
            "maxLength": 2000,
            "description": "The sub-question with all that is needed to understand it: names, dates, units.",
        },
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        question = arguments["question"].strip()
        finished = await self.delegation.ask(call_id, question)
        run_id = child_id(self.delegation.task.run_id, call_id)
        return lambda first: self._reply(first, run_id, question, finished)

    def _reply(self, first: int, run_id: str, question: str, finished: pb.RunFinished) -> Reply:
        """Return the answer with its citations renumbered to the material of this run."""
        answered = finished.HasField("answer")
        kept = [item for item in finished.material if not answered or item.number in finished.answer.cited]
        numbers: dict[int, int] = {}
        variables: dict[str, str] = {}
        findings: list[Finding] = []
        for message in kept[:MAX_MATERIAL]:
            finding = self._finding(message, run_id)
            numbers[message.number] = first + len(findings)
            if finding.kind is Kind.SHEET:
                variables[message.variable] = finding.variable
            findings.append(finding)
        sheets = [
            described(found.item, found.variable, first + place)
            for place, found in enumerate(findings)
            if found.kind is Kind.SHEET
        ]
        head = {"run_id": run_id, "material": sorted(numbers.values()), "sheets": bounded(sheets)}
        if answered:
            text = rewritten(finished.answer.markdown, numbers, variables)
            return Reply(ToolState.OK, head, shortened(text, ANSWER_CHARS), tuple(findings))
        why = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
        error = f"the sub-question was not answered ({why}){': ' + finished.error if finished.error else ''}"
        missing = {"subject": question, "reason": "SOURCE_FAILED", "detail": error}
        findings.append(Finding(Kind.MISSING, missing))
        return Reply(ToolState.FAILED, {**head, "error": error}, findings=tuple(findings))

    def _finding(self, message: trajectory.Material, run_id: str) -> Finding:
        """Convert a material of the sub-run.

        A sheet gets a variable in this run's session, code keeps its original run.
        """
        material = material_from_proto(message)
        if material.kind is Kind.SHEET:
            return Finding(Kind.SHEET, material.item, self.session.put(material.item))
        if material.kind is Kind.CODE:
            record = trajectory.CodeRecord.FromString(message.code.SerializeToString())
            record.run_id = record.run_id or run_id
            record.ClearField("figures")  # their names are those of the other run
            return Finding(Kind.CODE, record)
        return Finding(material.kind, material.item)


def bounded(sheets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sheets with their columns, or without them once ``HEAD_CHARS`` characters are used up."""
    room, told = HEAD_CHARS, []
    for sheet in sheets:
        room -= len(json.dumps(sheet, ensure_ascii=False))
        told.append(sheet if room >= 0 else {**sheet, "columns": []})
    return told


def rewritten(markdown: str, numbers: Mapping[int, int], variables: Mapping[str, str]) -> str:
    """Map citations and tables to this run's numbers and names; remove those without a counterpart."""
    cited = CITATION.sub(lambda match: f"[{numbers[int(match[1])]}]" if int(match[1]) in numbers else "", markdown)
    tables = TABLE.sub(lambda match: f"{{{{table:{variables[match[1]]}}}}}" if match[1] in variables else "", cited)
    return FIGURE.sub("", tables).strip()

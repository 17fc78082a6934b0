"""Candidates of preference pairs from production: answers that users disliked or checks found fault with.

A candidate becomes a pair only when a person has accepted it, or has written a better answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.memory.v1 import review_pb2 as pb
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1.trajectory_pb2 import FINDING_KIND_UNCHECKED, Finding, FindingKind, Trajectory
from fathom.clients import Clients
from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.core.ids import content_hash
from fathom.domain.text.language import language_of
from fathom.operations.ranking.answers import read_rows

DISLIKED, FAILED = "disliked", "failed checks"
USER = "user"
# Beginning of the ids of runs that propose another answer.
AGAIN = "again_"
# An answer with more faults than this is described well enough by the first ones.
SHOWN_FINDINGS = 20
PLAY_S = 600.0


@dataclass(frozen=True)
class Candidate:
    """An answer that failed, why, and what may stand in its place; "" where nobody has proposed anything."""

    run_id: str
    question: str
    rejected: str
    why: str
    reason: str = ""
    proposed: str = ""
    rejected_by: str = ""
    proposed_by: str = ""

    def to_item(self) -> pb.NewReviewItem:
        """Return the item; another proposal for the same answer is another item."""
        texts = ((self.rejected, self.rejected_by), (self.proposed, self.proposed_by if self.proposed else ""))
        return pb.NewReviewItem(
            key=f"candidate_{content_hash([self.run_id, self.question, self.rejected, self.proposed])[:32]}",
            kind=pb.REVIEW_KIND_CANDIDATE,
            question=self.question,
            language=language_of(self.question),
            texts=[pb.ReviewText(text=text, owner=owner) for text, owner in texts],
            machine=pb.MachineVerdict(verdict=self.why, reason=self.reason),
            run_id=self.run_id,
        )


def read_candidates(path: Path, left_out: Counter[str]) -> list[pb.NewReviewItem]:
    """Return candidates from rows of ``fathom feedback export``; answers that were liked are none.

    Raises ``InvalidField`` for a row that is none of it.
    """
    items = []
    for place, row in read_rows(path, "file"):
        texts = {name: row.get(name) for name in ("prompt", "chosen", "rejected", "completion", "run_id")}
        if any(text is not None and not isinstance(text, str) for text in texts.values()):
            raise InvalidField("file", f"{place}: prompt and answers must be texts")
        if row.get("label") is True:
            left_out["its user liked the answer"] += 1
            continue
        said = {name: str(text or "") for name, text in texts.items()}
        rejected = said["rejected"] or said["completion"]
        if not said["prompt"].strip() or not rejected.strip():
            raise InvalidField("file", f"{place} has no prompt with a rejected answer, or with a completion")
        # Reasons of a thumb are tags and words, as the page and the API take them.
        tags = row.get("tags")
        reasons = [*(map(str, tags) if isinstance(tags, list) else ()), str(row.get("comment") or "")]
        reason = "; ".join(filter(None, reasons))
        asked = (said["run_id"], said["prompt"], rejected, DISLIKED, reason)
        items.append(Candidate(*asked, proposed=said["chosen"], proposed_by=USER).to_item())
    return items


def find_disliked(judgements: Iterable[memory.Feedback]) -> list[Candidate]:
    """Return the answers that their users disliked or edited, by the last judgement of each run.

    Proposed is the user's own text, else the newest answer to the same question that was liked.
    """
    last = {item.run_id: item for item in judgements if item.HasField("turn")}
    liked = {read_question(item): item for item in last.values() if item.helpful and not item.edited_answer}
    found = []
    # Edits count as faults even with a thumb up: nobody rewrites what is right.
    for item in last.values():
        if item.helpful and not item.edited_answer:
            continue
        other = liked.get(read_question(item))
        proposed, owner = (item.edited_answer, USER) if item.edited_answer else ("", "")
        if not proposed and other is not None and other.turn.answer != item.turn.answer:
            proposed, owner = other.turn.answer, other.run_id
        # An edit that was taken back says nothing of the answer.
        if proposed == item.turn.answer:
            proposed, owner = "", ""
        reason = "; ".join(filter(None, [*item.tags, item.comment]))
        asked = (item.run_id, read_question(item), item.turn.answer, DISLIKED, reason)
        found.append(Candidate(*asked, proposed=proposed, proposed_by=owner))
    return found


def read_question(item: memory.Feedback) -> str:
    """Return the question of a judged turn as it was understood."""
    return item.turn.rewritten_question or item.turn.question


async def find_failed(clients: Clients, limit: int) -> AsyncIterator[Candidate]:
    """Yield those of the newest ``limit`` runs in whose answers the checks found faults."""
    request, read = planner.ListRunsRequest(page_size=min(limit, 200)), 0
    while read < limit:
        page = await clients.planner.list_runs(request)
        for run in page.runs[: limit - read]:
            read += 1
            # A part of another run has no reader of its own, nor has a question that was asked again for a proposal.
            if run.parent_run_id or not run.stop_reason or run.run_id.startswith(AGAIN):
                continue
            found = (await clients.planner.get_run(planner.GetRunRequest(run_id=run.run_id))).trajectory
            if (faults := list_faults(found)) and found.answer.markdown.strip():
                question, answer = found.understood or found.question, found.answer
                reason = "\n".join(describe_fault(one) for one in faults[:SHOWN_FINDINGS])
                yield Candidate(run.run_id, question, answer.markdown, FAILED, reason, rejected_by=answer.model)
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def list_faults(run: Trajectory) -> list[Finding]:
    """Return what the checks found in an answer; a check that could not be made found nothing."""
    return [one for one in run.answer.findings if one.kind != FINDING_KIND_UNCHECKED]


def describe_fault(finding: Finding) -> str:
    """Return a finding in a line."""
    name = FindingKind.Name(finding.kind).removeprefix("FINDING_KIND_").lower()
    return f"{name}: {' '.join(finding.text.split())} ({finding.detail})" if finding.detail else name


async def propose_again(clients: Clients, candidate: Candidate) -> tuple[str, str]:
    """Ask a candidate's question once more; return the answer and its model, "" for one that is at fault, too.

    The run's id follows from the candidate's, so that a repetition reads the answer that is there.
    """
    request_id = f"{AGAIN}{content_hash([candidate.run_id, candidate.rejected])[:24]}"
    asked = planner.RunRequest(request_id=request_id, question=candidate.question)
    try:
        async for response in clients.planner.run(asked, timeout_s=PLAY_S):
            if response.event.HasField("finished"):
                break
    except DeadlineExceeded:
        # The run goes on: the next call finds it ended.
        return "", ""
    found = (await clients.planner.get_run(planner.GetRunRequest(run_id=request_id))).trajectory
    answer = found.answer.markdown
    # Nobody should have to read a proposal of which the checks know already that it is wrong.
    is_good = answer.strip() and answer != candidate.rejected and not list_faults(found) and not found.answer.open
    return (answer, found.answer.model) if is_good else ("", "")


def find_reviewed(items: Iterable[pb.ReviewItem]) -> dict[str, str]:
    """Return the better answer of each reviewed run, "" where none was accepted; the newest ``items`` come first."""
    reviewed: dict[str, str] = {}
    for item in items:
        # One run may have several candidates, with other proposals: the newest that somebody accepted counts.
        if item.run_id and not reviewed.get(item.run_id):
            reviewed[item.run_id] = choose_text(item)
    return reviewed


def choose_text(item: pb.ReviewItem) -> str:
    """Return the answer that a decided candidate prefers; "" for one that was rejected."""
    if item.decision.verdict == pb.REVIEW_VERDICT_EDIT:
        return item.decision.after
    return item.texts[1].text if item.decision.verdict == pb.REVIEW_VERDICT_ACCEPT else ""


def make_pair(item: pb.ReviewItem) -> Mapping[str, Any] | None:
    """Return an accepted candidate as a pair of texts; None for one that was rejected."""
    chosen = choose_text(item)
    if not chosen:
        return None
    about = {"run_id": item.run_id, "why": item.machine.verdict, "reviewed_by": item.decision.reviewer}
    return {"prompt": item.question, "chosen": chosen, "rejected": item.texts[0].text, **about}

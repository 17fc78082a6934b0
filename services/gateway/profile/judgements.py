"""Routes of judgements: what a caller says of an answer, and what was said before."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.clients import Clients
from fathom.core.ids import checked_id
from fathom.services.gateway.bodies import Body, RunId

# Judgements of one conversation that are looked through, the newest first: several of each of some hundred turns.
PAGE, MAX_PAGES = 1_000, 5


class Feedback(Body):
    """A judgement of an answer."""

    helpful: bool
    tags: list[str] = Field(default_factory=list, max_length=20)
    comment: str = Field("", max_length=10_000)
    edited_answer: str = Field(
        "", max_length=1_000_000, description="The answer as the user would have it, in Markdown; empty when as it is."
    )
    request_id: str = Field("", description="Idempotency key.")


class Judgement(BaseModel):
    """Latest judgement of an answer by the caller."""

    helpful: bool | None = Field(description="Null where the caller has said nothing.")
    tags: list[str]
    comment: str
    edited_answer: str


class RunJudgement(Judgement):
    """Latest judgement of the answer of a run by the caller."""

    run_id: str


class JudgementList(BaseModel):
    """Latest judgements of the answers of a conversation by the caller."""

    judgements: list[RunJudgement] = Field(description="One for each run of which something was said.")


def add_feedback(app: FastAPI, clients: Clients) -> None:
    """Add the routes."""

    @app.post("/v1/runs/{run_id}/feedback", status_code=204)
    async def judge_run(run_id: RunId, feedback: Feedback) -> None:
        """Store a judgement of the run's answer."""
        await clients.memory.record_feedback(memory.RecordFeedbackRequest(run_id=run_id, **feedback.model_dump()))

    @app.get("/v1/runs/{run_id}/feedback")
    async def get_judgement(run_id: RunId) -> Judgement:
        """Return what the caller has said of the run's answer at last."""
        request = memory.ListFeedbackRequest(
            run_id=checked_id("run_id", run_id), own=True, newest_first=True, page_size=1
        )
        found = (await clients.memory.list_feedback(request)).feedback
        return Judgement(**(describe(found[0]) if found else describe(memory.Feedback()) | {"helpful": None}))

    @app.get("/v1/conversations/{conversation_id}/feedback")
    async def list_judgements(conversation_id: str) -> JudgementList:
        """Return what the caller has said at last of each answer of a conversation, in one answer for all its turns."""
        newest: dict[str, memory.Feedback] = {}
        token = ""
        # Bounded: a conversation that was judged thousands of times must not hold the page up.
        for _ in range(MAX_PAGES):
            request = memory.ListFeedbackRequest(
                conversation_id=checked_id("conversation_id", conversation_id), own=True, newest_first=True,
                page_size=PAGE, page_token=token,
            )  # fmt: skip
            found = await clients.memory.list_feedback(request)
            for one in found.feedback:
                # The newest come first: what is said again of a run replaces what was said before.
                newest.setdefault(one.run_id, one)
            token = found.next_page_token
            if not token:
                break
        return JudgementList(judgements=[RunJudgement(run_id=run, **describe(one)) for run, one in newest.items()])


def describe(judged: memory.Feedback) -> dict[str, Any]:
    """Return a judgement as the routes answer it."""
    return {
        "helpful": judged.helpful, "tags": list(judged.tags), "comment": judged.comment,
        "edited_answer": judged.edited_answer,
    }  # fmt: skip

"""Judgements of a test's engine, without their turns."""

from __future__ import annotations

from fathom.services.memory.engine import Engine, Judgement
from fathom.services.memory.feedback import Feedback


async def list_judgements(engine: Engine) -> list[Judgement]:
    """Return the first page of the tenant's judgements."""
    return [judged.judgement for judged in (await Feedback(engine.database).list())[0]]

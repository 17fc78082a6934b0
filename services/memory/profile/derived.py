"""Deletion of what was learnt from a conversation, together with it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, delete

from fathom.services.memory.profile.facts import LEARNT
from fathom.services.memory.profile.schema import FACTS, STANCES


def delete_derived(db: Connection, tenant: str, conversation: str, runs: Select[Any]) -> None:
    """Delete the facts learnt in a conversation, and the views that answers of its ``runs`` took.

    What a user has stated or edited on purpose stays.
    """
    learnt = (FACTS.c.tenant == tenant, FACTS.c.conversation == conversation, FACTS.c.origin == LEARNT)
    db.execute(delete(FACTS).where(*learnt))
    db.execute(delete(STANCES).where(STANCES.c.tenant == tenant, STANCES.c.run.in_(runs)))

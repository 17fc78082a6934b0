"""JSON bodies of facts."""

from __future__ import annotations

from pydantic import Field

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.domain.profile.kinds import Kind
from fathom.services.gateway.bodies import MAX_INT32, Body

KIND = f"^({'|'.join(Kind)})$"


class NewFact(Body):
    """A fact that the caller states."""

    text: str = Field(description="One sentence of 1 to 500 characters.")
    kind: str = Field(Kind.STATEMENT.value, pattern=KIND, description="What it is about; a preference has a value.")
    value: str = Field("", max_length=2_000, description="Value of a preference; empty for a statement.")
    subject: str = Field("", max_length=64, description="Id of the entity that it is about; empty for the caller.")
    request_id: str = Field("", description="Idempotency key.")

    def request(self, fact_id: str = "", version: int = 0) -> memory.PutFactRequest:
        """Convert to the request that adds the fact, or changes the one of an id."""
        fact = memory.Fact(
            id=fact_id,
            text=self.text,
            kind=f"FACT_KIND_{self.kind.upper()}",
            value=self.value,
            subject=self.subject,
            version=version,
        )
        return memory.PutFactRequest(request_id=self.request_id, fact=fact)


class FactEdit(NewFact):
    """A fact as the caller would have it."""

    version: int = Field(0, ge=0, le=MAX_INT32, description="Only if it is still of this version; 0 edits any.")

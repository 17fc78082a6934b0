"""Scope of an export or erasure of memory, and who may do either."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.core.call import Call
from fathom.core.errors import PermissionDenied
from fathom.core.ids import checked_id


@dataclass(frozen=True)
class Scope:
    """A tenant, or one of its users; ``principal`` None is everybody."""

    tenant: str
    principal: str | None = None


def choose_scope(call: Call, tenant: str, principal: str, *, everybody: bool) -> Scope:
    """Return whose memory a call is about; raise ``PermissionDenied`` for others' without being an operator."""
    tenant = checked_id("scope.tenant", tenant) if tenant else call.tenant
    principal = principal or call.principal
    is_own = tenant == call.tenant and principal == call.principal and not everybody
    if not is_own and not call.is_operator:
        raise PermissionDenied("scope: the memory of others is exported and erased by operators only")
    return Scope(tenant, None if everybody else principal)

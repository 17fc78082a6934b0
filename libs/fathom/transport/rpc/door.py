"""Entry of a call into a service: its context is read, and its caller identified, alike on every transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fathom.core.call import AUTHORIZATION_HEADER, DEFAULT_TENANT, PRINCIPAL_HEADER, TENANT_HEADER, Call
from fathom.core.errors import PermissionDenied, Unauthenticated
from fathom.core.identity import OPERATOR, SERVICE, Tokens

MAX_PRINCIPAL_CHARS = 200


class Door(Protocol):
    """Identifies callers; raises ``InvalidField``, ``Unauthenticated`` and ``PermissionDenied``."""

    def admit(self, headers: Mapping[str, str], timeout_s: float | None = None) -> Call:
        """Return the call that the headers describe."""
        ...


class OpenDoor:
    """Door of a service on loopback, with identity off: callers say which tenant they are.

    The default tenant is the machine's own and operates it.
    """

    def admit(self, headers: Mapping[str, str], timeout_s: float | None = None) -> Call:
        call = Call.from_headers(headers, timeout_s)
        principal = headers.get(PRINCIPAL_HEADER, "")[:MAX_PRINCIPAL_CHARS]
        return call.with_caller(principal, call.tenant, is_operator=call.tenant == DEFAULT_TENANT)


@dataclass(frozen=True)
class TokenDoor:
    """Door of a service whose callers show tokens: the tenant is the token's, or the one that a service names."""

    service: str
    tokens: Tokens

    def admit(self, headers: Mapping[str, str], timeout_s: float | None = None) -> Call:
        call = Call.from_headers(headers, timeout_s)
        principal = self.tokens.verify(read_bearer(headers), self.service)
        if principal.role == SERVICE:
            # On behalf of whom it acts, a user or another program, for the audit log.
            behalf = headers.get(PRINCIPAL_HEADER, "")[:MAX_PRINCIPAL_CHARS]
            return call.with_caller(behalf or principal.name, call.tenant, is_operator=False)
        if headers.get(TENANT_HEADER, principal.tenant) not in (principal.tenant, DEFAULT_TENANT):
            raise PermissionDenied(f"{principal.name} is not of tenant {call.tenant!r}")
        return call.with_caller(principal.name, principal.tenant, is_operator=principal.role == OPERATOR)


def read_bearer(headers: Mapping[str, str]) -> str:
    """Return the bearer token of the headers; raise ``Unauthenticated`` when there is none."""
    scheme, _, token = headers.get(AUTHORIZATION_HEADER, "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("a bearer token is required (FATHOM_TOKEN)")
    return token.strip()

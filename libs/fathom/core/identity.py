"""Who calls: principals, and the signed tokens by which services and operators' programs prove who they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.config import ConfigError
from fathom.core.errors import Unauthenticated
from fathom.core.extras import name_missing_extra
from fathom.core.ids import checked_id, new_id

ISSUER = "fathom"
# Symmetric: whoever verifies a token of a service may also sign one. All services trust each other.
ALGORITHM = "HS256"
# As RFC 7518 (3.2) wants of HS256: a key as long as its hash.
MIN_KEY_BYTES = 32
SERVICE, OPERATOR, USER = "service", "operator", "user"
ROLES = (SERVICE, OPERATOR, USER)
SETTING = "runtime.identity_file"
LIFETIME_S = 300.0
"""Seconds for which a service's token is valid: as long as a stolen one is of use."""
MAX_LIFETIME_S = 90 * 86_400.0
"""Maximum seconds from a token's issue to its end; tokens that claim to live longer are refused."""
LEEWAY_S = 10.0
"""Seconds by which the clocks of two machines may differ."""
ANY_SERVICE = "fathom"
"""Audience of tokens for people and programs, which call several services."""


@dataclass(frozen=True)
class Principal:
    """A verified caller. A service calls on behalf of whatever tenant it names; others are bound to theirs."""

    name: str
    tenant: str
    role: str


class Tokens:
    """Signs and verifies tokens with a set of keys."""

    def __init__(
        self, keys: Sequence[str], lifetime_s: float = LIFETIME_S, clock: Callable[[], float] = time.time
    ) -> None:
        """Create with keys of which the first signs; ``clock`` returns seconds since the epoch."""
        self._keys, self.lifetime_s, self._clock = tuple(keys), lifetime_s, clock

    @classmethod
    def open(cls, path: str, lifetime_s: float = LIFETIME_S) -> Tokens | None:
        """Return the tokens of a file with one key per line, of which the first signs; None for no path.

        Raises ``ConfigError`` when the file cannot be read or its keys are too short, and ``MissingExtra``.
        """
        if not path:
            return None
        with name_missing_extra():
            import jwt  # noqa: F401 - here, so that a service without the package does not start
        try:
            lines = Path(path).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise config_error(f"cannot be read: {error}") from error
        if not lines or any(len(line.encode()) < MIN_KEY_BYTES for line in lines):
            raise config_error(f"must hold keys of at least {MIN_KEY_BYTES} characters, one per line")
        return cls(lines, lifetime_s)

    def sign(self, name: str, audience: str, *, role: str, tenant: str = "", lifetime_s: float | None = None) -> str:
        """Return a token for a principal, to be shown to ``audience``: a service, or ``ANY_SERVICE``."""
        import jwt

        now = self._clock()
        claims = {
            "iss": ISSUER,
            "sub": name,
            "aud": audience,
            "role": role,
            "tenant": tenant,
            "iat": int(now),
            "exp": int(now + (lifetime_s or self.lifetime_s)),
            "jti": new_id("token"),
        }
        return jwt.encode(claims, self._keys[0], algorithm=ALGORITHM)

    def verify(self, token: str, audience: str) -> Principal:
        """Return who shows a token to ``audience``.

        Raises ``Unauthenticated`` for a token that is malformed, signed by others, expired, for another audience, or
        valid for longer than tokens may be.
        """
        claims = self._decode(token, audience)
        issued, ends, now = claims["iat"], claims["exp"], self._clock()
        if not (isinstance(issued, int) and isinstance(ends, int)) or ends - issued > MAX_LIFETIME_S:
            raise Unauthenticated(f"the token is valid for more than {MAX_LIFETIME_S / 86_400:g} days")
        if issued > now + LEEWAY_S or ends + LEEWAY_S < now:
            raise Unauthenticated("the token has expired, or is not valid yet")
        role, tenant = claims.get("role"), claims.get("tenant", "")
        if role not in ROLES or not isinstance(tenant, str) or (role != SERVICE and not tenant):
            raise Unauthenticated("the token names no role and tenant")
        return Principal(str(claims["sub"]), checked_id("tenant", tenant) if tenant else "", str(role))

    def _decode(self, token: str, audience: str) -> Mapping[str, Any]:
        import jwt

        # Times are compared above, by this object's clock.
        options: Any = {"require": ["exp", "iat", "sub", "aud"], "verify_exp": False, "verify_iat": False}
        reason: Exception | None = None
        for key in self._keys:
            try:
                return jwt.decode(
                    token, key, algorithms=[ALGORITHM], audience=[audience, ANY_SERVICE], issuer=ISSUER, options=options
                )
            except jwt.InvalidSignatureError as error:
                reason = error  # perhaps an earlier key's
            except jwt.InvalidAudienceError as error:
                raise Unauthenticated(f"the token is not for {audience}") from error
            except jwt.InvalidTokenError as error:
                reason = error
                break
        raise Unauthenticated("the token is not valid") from reason


class Credentials:
    """Tokens that one program shows to services: signed anew before they expire, or one that it was given."""

    def __init__(self, make: Callable[[str], str], renew_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create with the maker of a token for an audience, called again after ``renew_s`` seconds."""
        self._make, self._renew_s, self._clock = make, renew_s, clock
        self._held: dict[str, tuple[float, str]] = {}

    def token(self, audience: str) -> str:
        """Return a token for a service."""
        now = self._clock()
        made, token = self._held.get(audience, (0.0, ""))
        if not token or now - made >= self._renew_s:
            token = self._make(audience)
            self._held[audience] = (now, token)
        return token


def service_credentials(tokens: Tokens | None, name: str) -> Credentials | None:
    """Return what a service shows to its peers, None when identity is off."""
    if tokens is None:
        return None
    # Signed anew at half of its life, so that one sent at the last moment outlives its call's way.
    return Credentials(lambda audience: tokens.sign(f"service:{name}", audience, role=SERVICE), tokens.lifetime_s / 2)


def environment_credentials(environ: Mapping[str, str]) -> Credentials | None:
    """Return what a program that is no service shows: ``FATHOM_TOKEN``; None without one."""
    token = environ.get("FATHOM_TOKEN", "")
    return Credentials(lambda _: token, float("inf")) if token else None


def config_error(message: str) -> ConfigError:
    return ConfigError(f"{SETTING} (FATHOM_RUNTIME_IDENTITY_FILE): {message}", metadata={"field": SETTING})

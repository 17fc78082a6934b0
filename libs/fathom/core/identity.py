"""Callers: principals, and the signed tokens by which services and operators' programs prove who they are."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.cache import BoundedCache
from fathom.core.call import DEFAULT_TENANT
from fathom.core.config import ConfigError
from fathom.core.errors import PermissionDenied, Unauthenticated
from fathom.core.extras import name_missing_extra
from fathom.core.ids import checked_id, new_id, sha256

ISSUER = "fathom"
# Asymmetric: the sandbox, which runs hostile code, verifies its callers without a key that signs.
ALGORITHM = "EdDSA"
PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
API_KEY_PREFIX = "fk_"
# A key of the gateway's users: 32 random bytes in base64, as secrets.token_urlsafe writes them.
API_KEY = re.compile(rf"{API_KEY_PREFIX}[\w-]{{43}}")
SERVICE, OPERATOR, USER = "service", "operator", "user"
ROLES = (SERVICE, OPERATOR, USER)
SETTING, VARIABLE = "runtime.identity_file", "FATHOM_RUNTIME_IDENTITY_FILE"
# Name of an operator's program that signs for itself.
PROGRAM = "program"
LIFETIME_S = 300.0
"""Seconds for which a service's token is valid: as long as a stolen one is of use."""
MAX_LIFETIME_S = 90 * 86_400.0
"""Maximum seconds from a token's issue to its end; tokens that claim to live longer are refused."""
LEEWAY_S = 10.0
"""Seconds by which the clocks of two machines may differ."""
# As many programs as call one service, with room to spare; claims are a few short strings.
MAX_VERIFIED, CLAIMS_BYTES = 4_096, 1_024
ANY_SERVICE = "fathom"
"""Audience of tokens for people and programs, which call several services."""


@dataclass(frozen=True)
class Principal:
    """A verified caller. A service calls on behalf of whatever tenant it names; others are bound to theirs."""

    name: str
    tenant: str
    role: str


@dataclass(frozen=True)
class Verified:
    """Content of a token with a right signature: its principal and its time, in seconds since the epoch."""

    principal: Principal
    issued: int
    ends: int


class Tokens:
    """Signs and verifies tokens with a set of keys."""

    def __init__(self, pem: str, lifetime_s: float = LIFETIME_S, clock: Callable[[], float] = time.time) -> None:
        """Create from Ed25519 keys: the first private one signs, the public parts of all of them verify.

        ``clock`` returns seconds since the epoch. Raises ``ConfigError`` for anything else, and ``MissingExtra``.
        """
        self.lifetime_s, self._clock = lifetime_s, clock
        self._signing, self._public = read_keys(pem)
        # A program shows one token for minutes: it is verified once.
        self._verified = BoundedCache[tuple[str, str], Verified](
            max_entries=MAX_VERIFIED, max_bytes=MAX_VERIFIED * CLAIMS_BYTES, ttl_s=lifetime_s
        )

    @classmethod
    def open(cls, path: str, lifetime_s: float = LIFETIME_S) -> Tokens | None:
        """Return the tokens of a file of keys; None for no path.

        Raises ``ConfigError`` when the file cannot be read or holds no keys, and ``MissingExtra``.
        """
        if not path:
            return None
        try:
            return cls(Path(path).read_text(encoding="ascii"), lifetime_s)
        except (OSError, UnicodeDecodeError) as error:
            raise config_error(f"cannot be read: {error}") from error

    def sign(self, name: str, audience: str, *, role: str, tenant: str = "", lifetime_s: float | None = None) -> str:
        """Return a token for a principal, to be shown to ``audience``: a service, or ``ANY_SERVICE``.

        Raises ``ConfigError`` when no key signs: who has public keys alone is called, and calls nobody.
        """
        import jwt

        if self._signing is None:
            raise config_error("holds no private key to sign with")
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
        return jwt.encode(claims, self._signing, algorithm=ALGORITHM)

    def verify(self, token: str, audience: str) -> Principal:
        """Return who shows a token to ``audience``.

        Raises ``Unauthenticated`` for a token that is malformed, signed by others, expired, for another audience, or
        valid for longer than tokens may be.
        """
        # By its hash: what a program shows is not held.
        name = (sha256(token.encode()), audience)
        verified = self._verified.get(name)
        if verified is None:
            verified = read_claims(self._check_signature(token, audience))
            self._verified.put(name, verified, CLAIMS_BYTES)
        now = self._clock()
        if verified.issued > now + LEEWAY_S or verified.ends + LEEWAY_S < now:
            raise Unauthenticated("the token has expired, or is not valid yet")
        return verified.principal

    def _check_signature(self, token: str, audience: str) -> Mapping[str, Any]:
        import jwt

        # Times are compared by this object's clock, and each time that the token is shown.
        options: Any = {"require": ["exp", "iat", "sub", "aud"], "verify_exp": False, "verify_iat": False}
        reason: Exception | None = None
        for key in self._public:
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


def read_claims(claims: Mapping[str, Any]) -> Verified:
    """Return what a token's claims say; raise ``Unauthenticated`` when they name no principal or no bounded time."""
    issued, ends = claims["iat"], claims["exp"]
    if not (isinstance(issued, int) and isinstance(ends, int)) or ends - issued > MAX_LIFETIME_S:
        raise Unauthenticated(f"the token is valid for more than {MAX_LIFETIME_S / 86_400:g} days")
    role, tenant = claims.get("role"), claims.get("tenant", "")
    if role not in ROLES or not isinstance(tenant, str) or (role != SERVICE and not tenant):
        raise Unauthenticated("the token names no role and tenant")
    principal = Principal(str(claims["sub"]), checked_id("tenant", tenant) if tenant else "", str(role))
    return Verified(principal, issued, ends)


def make_keys() -> tuple[str, str]:
    """Return a new private key and its public key, in PEM."""
    with name_missing_extra():
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def read_keys(pem: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the first private Ed25519 key, None without one, and all public keys; raise ``ConfigError``."""
    with name_missing_extra():
        import jwt  # noqa: F401 - here, so that a service without the package does not start
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    private, public = [], []
    for block in PEM.finditer(pem):
        data = block.group().encode()
        try:
            key: Any = load_pem_private_key(data, None) if "PRIVATE" in block[1] else load_pem_public_key(data)
        except (ValueError, TypeError) as error:
            raise config_error(f"holds a key that cannot be read: {error}") from error
        if isinstance(key, Ed25519PrivateKey):
            private.append(key)
            key = key.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise config_error("must hold Ed25519 keys (fathom identity keys makes them)")
        public.append(key)
    if not public:
        raise config_error("holds no key in PEM (fathom identity keys makes them)")
    return (private[0] if private else None), tuple(public)


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


def environment_credentials(environ: Mapping[str, str], tenant: str = DEFAULT_TENANT) -> Credentials | None:
    """Return what a program that is no service shows when it calls for a tenant, None for nothing.

    That is ``FATHOM_TOKEN``, or where services find their keys (``FATHOM_RUNTIME_IDENTITY_FILE``) an operator's token.
    """
    token = environ.get("FATHOM_TOKEN", "")
    if token:
        return Credentials(lambda _: token, float("inf"))
    tokens = Tokens.open(environ.get(VARIABLE, ""))
    if tokens is None:
        return None
    return Credentials(
        lambda audience: tokens.sign(PROGRAM, audience, role=OPERATOR, tenant=tenant), tokens.lifetime_s / 2
    )


def environment_tenant(environ: Mapping[str, str], wanted: str = "") -> str:
    """Return the tenant for which a program calls: ``wanted``, or else its token's, or else the default one.

    The token is read, not verified, which is for the services. Raises ``PermissionDenied`` for a token of another
    tenant, and ``Unauthenticated`` for one that cannot be read.
    """
    token = environ.get("FATHOM_TOKEN", "")
    if not token:
        return checked_id("tenant", wanted or DEFAULT_TENANT)
    own = str(read_unverified(token).get("tenant", ""))
    if wanted and wanted != own:
        raise PermissionDenied(f"FATHOM_TOKEN is a token of tenant {own!r}, not of {wanted!r}")
    return checked_id("tenant", own)


def environment_principal(environ: Mapping[str, str]) -> str:
    """Return as whom services see a program: its token's name, an operator's by keys, "" where none is identified.

    Raises ``Unauthenticated`` for a token that cannot be read.
    """
    token = environ.get("FATHOM_TOKEN", "")
    if token:
        return str(read_unverified(token).get("sub", ""))
    return PROGRAM if environ.get(VARIABLE) else ""


def read_unverified(token: str) -> Mapping[str, Any]:
    """Return the claims of a program's own token, which services verify; raise ``Unauthenticated`` for no token."""
    with name_missing_extra():
        import jwt
    try:
        claims: Mapping[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError as error:
        raise Unauthenticated("FATHOM_TOKEN holds no token that can be read") from error
    return claims


def config_error(message: str) -> ConfigError:
    return ConfigError(f"{SETTING} ({VARIABLE}): {message}", metadata={"field": SETTING})

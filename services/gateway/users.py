"""Callers: API keys of this installation, and identity tokens of an OpenID provider; each belongs to a tenant."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from fathom.core.call import DEFAULT_TENANT
from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, PermissionDenied, Unauthenticated
from fathom.core.extras import name_missing_extra
from fathom.core.identity import API_KEY_PREFIX
from fathom.core.ids import checked_id
from fathom.services.gateway.config import Config
from fathom.transport.http.client import HttpClient, HttpPolicy

# Asymmetric ones only: a symmetric one would be signed with what the provider publishes.
ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
LEEWAY_S = 10.0
# A provider rotates its keys over days; a token with an unknown key asks for them again, at most this often.
KEYS_FRESH_S, KEYS_RETRY_S = 3600.0, 30.0
# An identity token is for one session of a person; one that claims to live longer is of no use as a proof.
MAX_LIFETIME_S = 86_400.0
# A set of keys has a few kilobytes.
MAX_KEYS_BYTES = 1 << 20
FETCH_S = 5.0


class Right(StrEnum):
    """Right that not every caller of a tenant has; a scope of an API key, or a role of an identity token."""

    REVIEW = "review"
    """Decides on what waits for people."""
    REVIEW_ITEMS = "review-items"
    """Puts items before them."""
    SOURCES = "sources"
    """Sees how sources are set up and why they failed."""


# The key under which a request carries its caller's rights.
SCOPES = "fathom.scopes"
NO_RIGHTS: frozenset[Right] = frozenset()


@dataclass(frozen=True)
class User:
    """A verified caller of the gateway, its tenant and its rights."""

    name: str
    tenant: str
    rights: frozenset[Right] = NO_RIGHTS


@dataclass(frozen=True)
class ApiKey:
    """A key as it is kept: its SHA-256 alone. ``ends`` is in seconds since the epoch, infinite for never."""

    name: str
    tenant: str
    ends: float
    rights: frozenset[Right] = NO_RIGHTS


class ApiKeys:
    """Keys of a file with one JSON object per line: name, tenant, sha256, scopes, and expires, a date, if it ends.

    A changed file is read again, so that a key is withdrawn by removing its line.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Read the file; raise ``ConfigError`` naming the line that is wrong."""
        self._path, self._clock = path, clock
        self._state, self._keys = self._read()

    def find(self, key: str) -> User:
        """Return whose key it is; raise ``Unauthenticated`` for an unknown or expired one, ``ConfigError``."""
        if self._stat() != self._state:
            self._state, self._keys = self._read()
        # Found by its hash: how long that takes tells nothing of the keys themselves.
        known = self._keys.get(hash_key(key))
        if known is None or known.ends <= self._clock():
            raise Unauthenticated("the API key is unknown or has expired")
        return User(f"key:{known.name}", known.tenant, known.rights)

    def _stat(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise keys_error(f"cannot be read: {error.strerror}") from error
        return found.st_mtime_ns, found.st_size

    def _read(self) -> tuple[tuple[int, int], Mapping[str, ApiKey]]:
        state = self._stat()
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise keys_error("cannot be read") from error
        return state, dict(parse_key(line, number) for number, line in enumerate(lines, 1) if line.strip())


def parse_key(line: str, number: int) -> tuple[str, ApiKey]:
    """Return a key's hash and the key; raise ``ConfigError`` with the number of the line."""
    try:
        found = json.loads(line)
        digest, ends = str(found["sha256"]), str(found.get("expires", ""))
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError("sha256 is no hash")
        moment = datetime.fromisoformat(ends).replace(tzinfo=UTC).timestamp() if ends else float("inf")
        rights = frozenset(map(Right, found.get("scopes", ())))
        return digest, ApiKey(str(found["name"]), checked_id("tenant", found["tenant"]), moment, rights)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidField) as error:
        raise keys_error(f"line {number}: {error}") from error


def make_key(name: str, tenant: str, expires: str = "", scopes: Sequence[str] = ()) -> tuple[str, str]:
    """Return a new key, which is shown once, and its line for the file; raise ``ConfigError``."""
    key = API_KEY_PREFIX + secrets.token_urlsafe(32)
    fields: dict[str, Any] = {"name": name, "tenant": tenant, "sha256": hash_key(key)}
    line = json.dumps(fields | ({"expires": expires} if expires else {}) | ({"scopes": [*scopes]} if scopes else {}))
    parse_key(line, 1)
    return key, line


def hash_key(key: str) -> str:
    """Return the hash by which a key is kept."""
    # A plain hash: keys are 256 random bits, which no list of likely ones finds, unlike passwords.
    return hashlib.sha256(key.encode()).hexdigest()


class OpenIdProvider:
    """Verifies identity tokens of one OpenID provider by the keys that it publishes (JWKS)."""

    def __init__(self, config: Config, client: HttpClient, clock: Callable[[], float] = time.time) -> None:
        """Create without connecting; ``clock`` returns seconds since the epoch."""
        self._config, self._client, self._clock = config, client, clock
        self._keys: Mapping[str, Any] = {}
        self._fetched = self._asked = float("-inf")
        self._fetching = asyncio.Lock()
        self._has_failed = False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def verify(self, token: str) -> User:
        """Return who shows the token.

        Raises ``Unauthenticated`` for a token that is malformed, expired, signed by others or for another audience,
        ``PermissionDenied`` for one without a tenant, and ``DependencyFailed`` while the keys cannot be had.
        """
        import jwt

        try:
            name = str(jwt.get_unverified_header(token).get("kid", ""))
            key = await self._find_key(name)
            options: Any = {"require": ["exp", "iat", "sub", "aud"], "verify_exp": False, "verify_iat": False}
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._config.oidc_audience,
                issuer=self._config.oidc_issuer,
                options=options,
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise Unauthenticated("the identity token is not valid") from error
        issued, ends, now = claims["iat"], claims["exp"], self._clock()
        if not all(isinstance(moment, int | float) for moment in (issued, ends)) or ends - issued > MAX_LIFETIME_S:
            raise Unauthenticated("the identity token is valid for more than a day")
        if ends + LEEWAY_S < now or issued > now + LEEWAY_S:
            raise Unauthenticated("the identity token has expired, or is not valid yet")
        rights = read_rights(claims.get(self._config.oidc_roles_claim))
        return User(f"user:{claims['sub']}", self._read_tenant(claims), rights)

    def _read_tenant(self, claims: Mapping[str, Any]) -> str:
        tenant = claims.get(self._config.oidc_tenant_claim)
        if not isinstance(tenant, str) or not tenant:
            raise PermissionDenied(f"the identity token has no claim {self._config.oidc_tenant_claim!r}")
        try:
            return checked_id("tenant", tenant)
        except InvalidField as error:
            raise PermissionDenied(error.message) from error

    async def _find_key(self, name: str) -> Any:
        """Return the provider's key of this name, fetched anew when it is unknown or the keys are old."""
        is_fresh = self._clock() - self._fetched < KEYS_FRESH_S
        # Those that are known serve on while others are asked for.
        if name not in self._keys or not (is_fresh or self._fetching.locked()):
            # One request asks for all: the others wait for its answer, which may have their key.
            async with self._fetching:
                await self._renew_keys(name)
        if name in self._keys:
            return self._keys[name]
        # Nothing is said of a token while the keys cannot be had: a client with a 401 would drop a good one.
        if self._has_failed:
            raise DependencyFailed(self._client.name, "has not given its keys lately")
        raise Unauthenticated("the identity token is signed with an unknown key")

    async def _renew_keys(self, name: str) -> None:
        """Fetch the keys where this one is unknown or they are old, unless they were asked for just now."""
        now = self._clock()
        is_old = name not in self._keys or now - self._fetched >= KEYS_FRESH_S
        if not is_old or now - self._asked < KEYS_RETRY_S:
            return
        self._asked = now
        try:
            self._keys, self._fetched = await self._fetch(), now
            self._has_failed = False
        except FathomError:
            self._has_failed = True
            # Those that are known serve on while the provider is away.
            if name not in self._keys:
                raise

    async def _fetch(self) -> Mapping[str, Any]:
        import jwt

        answer = await self._client.get(self._config.oidc_jwks_url, deadline=time.monotonic() + FETCH_S)
        try:
            return {key.key_id or "": key for key in jwt.PyJWKSet.from_dict(answer.json()).keys}
        except (jwt.PyJWTError, AttributeError, TypeError) as error:
            raise DependencyFailed(self._client.name, "publishes no keys") from error


class Users:
    """All ways in which a caller of the gateway may say who it is; without any, everybody is the default tenant."""

    def __init__(self, config: Config, keys: ApiKeys | None, provider: OpenIdProvider | None) -> None:
        self._config, self._keys, self._provider = config, keys, provider

    @classmethod
    def open(cls, config: Config) -> Users:
        """Return what the settings name; raise ``ConfigError`` and ``MissingExtra``."""
        keys = ApiKeys(Path(config.api_keys_file)) if config.api_keys_file else None
        return cls(config, keys, open_provider(config))

    async def close(self) -> None:
        """Close the connections to the provider."""
        if self._provider is not None:
            await self._provider.close()

    @property
    def is_open(self) -> bool:
        """Return whether callers need not say who they are."""
        return not self._config.token and self._keys is None and self._provider is None

    async def identify(self, token: str) -> User:
        """Return whose token it is; raise ``Unauthenticated``, ``PermissionDenied`` and ``DependencyFailed``."""
        if self.is_open:
            return User("", DEFAULT_TENANT, frozenset(Right))
        # In constant time: that of an ordinary comparison tells how many characters are right.
        if self._config.token and hmac.compare_digest(token.encode(), self._config.token.encode()):
            return User("token", DEFAULT_TENANT, frozenset(Right))
        if self._keys is not None and token.startswith(API_KEY_PREFIX):
            return self._keys.find(token)
        if self._provider is not None and token.count(".") == 2:
            return await self._provider.verify(token)
        raise Unauthenticated("a bearer token is required")


def read_rights(claim: object) -> frozenset[Right]:
    """Return the rights among the roles of an identity token: a list, or names with spaces between."""
    # Roles are the provider's, for all its applications: those of others say nothing here.
    roles = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    return frozenset(right for right in Right if right.value in roles)


def open_provider(config: Config) -> OpenIdProvider | None:
    """Return the provider that the settings name, None for none; raise ``ConfigError`` when they are incomplete."""
    wanted = {name: getattr(config, name) for name in ("oidc_issuer", "oidc_audience", "oidc_jwks_url")}
    if not any(wanted.values()):
        return None
    for name, value in wanted.items():
        if not value:
            raise ConfigError(f"gateway.{name}: is needed with the others", metadata={"field": f"gateway.{name}"})
    with name_missing_extra():
        import jwt  # noqa: F401 - here, so that a gateway without the package does not start
    policy = HttpPolicy(connect_s=FETCH_S, read_s=FETCH_S, body_bytes=MAX_KEYS_BYTES)
    return OpenIdProvider(config, HttpClient("identity provider", policy))


def keys_error(message: str) -> ConfigError:
    field = "gateway.api_keys_file"
    return ConfigError(f"{field} (FATHOM_GATEWAY_API_KEYS_FILE): {message}", metadata={"field": field})

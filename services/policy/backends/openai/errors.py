"""Errors of an endpoint as typed errors: the true cause, the setting that mends it, and no part of a key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from fathom.core.errors import (
    ContextTooLong,
    DependencyFailed,
    FathomError,
    InvalidField,
    NotReady,
    Overloaded,
    UpstreamRefused,
)
from fathom.services.policy.config import OpenAIModel

# For endpoints that refuse for load without a Retry-After header.
RETRY_AFTER_S = 2.0
MESSAGE_CHARS = 600
"""Characters of an endpoint's own words that are passed on."""
SHORTEST_SECRET = 4
"""Characters of a key that, in a row, are not shown."""
REDACTED = "[redacted]"
# Keys in the usual forms, credentials in headers, and masked remains such as sk-ab****yz.
SECRETS = re.compile(r"\b(?:sk|pk|key|xai|gsk|AIza)-?[\w.*-]{8,}|\b(?:Bearer|Basic)\s+\S+|[\w.-]*\*{3,}[\w.*-]*", re.I)
# OpenAI and vLLM, Gemini, Claude, Kimi, GLM, llama.cpp: each in words of its own.
TOO_LONG = re.compile(
    r"context.?(?:length|window|size)|token (?:count|limit)|(?:prompt|input)\b.{0,30}(?:too long|exceed)", re.IGNORECASE
)
LIMIT = re.compile(r"(?:maximum|limit|allowed|max)\D{0,40}?(\d[\d,]{2,})", re.IGNORECASE)
TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})


def redact(text: str, key: str = "") -> str:
    """Return the text without the key, any part of it, or what looks like one; shortened."""
    if key:
        text = text.replace(key, REDACTED)
        # Whole words only, so that an ordinary word is not cut by a key that happens to contain a part of it.
        for word in set(re.findall(r"[\w.-]+", text)):
            if len(word) >= SHORTEST_SECRET and word in key:
                text = text.replace(word, REDACTED)
    text = SECRETS.sub(REDACTED, text)
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"


def read_error(body: Any) -> dict[str, Any]:
    """Return the error object of an endpoint's body; {} where there is none.

    Google puts it into a list, Mistral sends it bare, others below ``error``.
    """
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        return dict(inner)
    return {"message": inner, **body} if isinstance(inner, str) else dict(body)


def describe(error: Any) -> str:
    """Return the endpoint's message as text."""
    found = read_error(getattr(error, "body", None)).get("message") or getattr(error, "message", None) or str(error)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


class TitleParser(HTMLParser):
    """Reader of a page's title and text."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def describe_page(text: str) -> str:
    """Return the first words of an HTML page."""
    parser = TitleParser()
    parser.feed(text[:20_000])
    return " ".join(parser.words)[:160]


def is_page(text: str) -> bool:
    return text.lstrip()[:1] == "<"


class Translator:
    """Translator of errors about one model. ``key`` is the secret that must not appear in messages."""

    def __init__(self, name: str, config: OpenAIModel, key: str) -> None:
        self._name, self._config, self._key = name, config, key

    def page(self, text: str, status: int) -> FathomError:
        """Return the error for an HTML page in place of a reply: a proxy's, a log-in, or a wrong path."""
        said = redact(describe_page(text), self._key)
        return UpstreamRefused(
            self._name, status,
            f"an HTML page ({said!r}) in place of JSON from {self._config.base_url}: check "
            f"models.{self._name}.base_url, which names the API's root up to /v1, and proxies in between",
        )  # fmt: skip

    def status(self, error: Any) -> FathomError:
        """Return the error for an answer with a status of 400 or above."""
        status, said = int(error.status_code), redact(describe(error), self._key)
        found = read_error(error.body)
        text = error.body if isinstance(error.body, str) else ""
        if is_page(text):
            return self._page_error(error, text, status)
        code = str(found.get("code") or found.get("type") or "")
        if status in (400, 413, 422) and (code in TOO_LONG_CODES or TOO_LONG.search(said)):
            return ContextTooLong(self._name, read_limit(said), said)
        if status == 429 and code != "insufficient_quota":
            return Overloaded(f"{self._name}: the endpoint answered: {said}", read_retry_after(error))
        if status in (400, 422):
            return InvalidField("messages", f"the endpoint answered: {said}")
        if status in (401, 403):
            variable = self._config.api_key_env or "none, so that no key is sent"
            hint = f"check the key in models.{self._name}.api_key_env ({variable})"
            return UpstreamRefused(self._name, status, f"{said} ({hint})")
        if status == 404:
            hint = f"check models.{self._name}.model ({self._config.model}) and base_url ({self._config.base_url})"
            return UpstreamRefused(self._name, status, f"{said} ({hint})")
        if status in (408, 409, 425) or status >= 500:
            return DependencyFailed(self._name, f"the endpoint answered: {said}")
        return UpstreamRefused(self._name, status, said)

    def _page_error(self, error: Any, text: str, status: int) -> FathomError:
        # A proxy's page about an endpoint that is down is a passing state; all others are settings.
        if status >= 500:
            said = redact(describe_page(text), self._key)
            return DependencyFailed(self._name, f"status {status} with an HTML page ({said!r}) in place of JSON")
        return self.page(text, status)

    def connection(self, error: Exception) -> FathomError:
        """Return the error for an endpoint that cannot be reached."""
        return DependencyFailed(self._name, f"the endpoint cannot be reached: {redact(str(error), self._key)}")

    def stream(self, error: Any) -> FathomError:
        """Return the error for an error object inside a stream."""
        return DependencyFailed(self._name, f"the endpoint answered: {redact(describe(error), self._key)}")

    def settings(self, field: str, error: Any) -> FathomError:
        """Return the error for a field that the model's settings add and the endpoint refuses."""
        said = redact(describe(error), self._key)
        return InvalidField(f"models.{self._name}.add.{field}", f"the endpoint refuses it: {said}")

    def loading(self) -> FathomError:
        return NotReady(f"model {self._name!r} is being loaded", retry_after_s=1.0)


def read_limit(said: str) -> int:
    """Return the window in tokens that a message names; 0 when it names none."""
    found = LIMIT.search(said)
    return int(found[1].replace(",", "")) if found else 0


def read_retry_after(error: Any) -> float:
    """Return the retry delay of a response in seconds, at most 60; ``RETRY_AFTER_S`` when it is missing or invalid."""
    try:
        # An endpoint may name hours or a date. After a minute another attempt costs little, and a date is no number.
        return min(60.0, max(0.0, float(error.response.headers.get("retry-after", RETRY_AFTER_S))))
    except (TypeError, ValueError):
        return RETRY_AFTER_S

"""Blocking variant of the HTTP client for code that runs in threads: one POST at a time, JSON in, JSON out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fathom.core.call import current_call
from fathom.core.deadline import remaining_s
from fathom.core.errors import DeadlineExceeded, DependencyFailed
from fathom.core.retry import retry_blocking
from fathom.transport.http.body import ENCODINGS, Body
from fathom.transport.http.client import AGENT, Answer, HttpPolicy, check_response, httpx, secrets_of


class BlockingClient:
    """Calls one vendor from any number of threads; otherwise behaves like ``HttpClient``."""

    def __init__(
        self,
        name: str,
        policy: HttpPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """Create the client.

        ``timeout_s`` bounds a call including its retries; the current call's deadline bounds it further.
        """
        self.name, self.policy, self._timeout_s = name, policy or HttpPolicy(), timeout_s
        library = httpx()
        self._failures: tuple[type[Exception], ...] = (library.HTTPError, library.InvalidURL, library.StreamError)
        self._timeouts: type[Exception] = library.TimeoutException
        self._headers = {"user-agent": AGENT, "accept-encoding": ENCODINGS, **(headers or {})}
        self._timeout = library.Timeout
        self._client = library.Client(
            headers=self._headers,
            # Neither HTTP_PROXY nor ~/.netrc: a proxy is a setting of this client, and no password of the machine's
            # user may reach a vendor.
            trust_env=False,
            proxy=self.policy.proxy or None,
            limits=library.Limits(max_connections=self.policy.concurrency),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def post(self, url: str, json: Any) -> Any:
        """Send a POST and return the response as JSON; raises as ``HttpClient.request``."""
        deadline = time.monotonic() + self._timeout_s
        call = current_call()
        if call is not None and call.deadline is not None:
            deadline = min(deadline, call.deadline)
        return retry_blocking(lambda: self._once(url, json, deadline).json(), self.policy.retry, deadline)

    def _once(self, url: str, json: Any, deadline: float) -> Answer:
        left = remaining_s(deadline, self.name) or 0.0
        timeout = self._timeout(min(left, self.policy.read_s), connect=min(left, self.policy.connect_s))
        try:
            with self._client.stream("POST", url, json=json, timeout=timeout) as response:
                body = Body(response.headers.get("content-encoding", ""), self.policy.body_bytes, self.name)
                for chunk in response.iter_raw():
                    body.add(chunk)
                    # httpx bounds the wait for each chunk only: a server that sends a byte now and then would hold the
                    # thread for ever.
                    remaining_s(deadline, self.name)
                check_response(
                    self.name, response.status_code, response.headers, body.whole(), secrets_of(self._headers)
                )
                return Answer(
                    self.name, response.status_code, dict(response.headers), body.whole(), self.policy.json_bytes
                )
        except self._failures as error:
            # The timeout given to httpx was the time left; it may fire a moment before the deadline by this clock.
            if isinstance(error, self._timeouts) and time.monotonic() >= deadline - 0.01:
                late = f"{self.name} did not answer in time"
                raise DeadlineExceeded(late, metadata={"culprit": self.name}) from error
            raise DependencyFailed(self.name, f"cannot be reached ({type(error).__name__})") from error

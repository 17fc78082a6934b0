"""Client-side routing over several replicas of one service, with session and prefix affinity.

A conversation goes to the highest-ranked healthy replica below ``CROWDED`` × the mean number of calls that this client
has in flight (rendezvous hashing with bounded loads): all clients agree without communication, the replica's prefix
cache is reused, and when a replica joins or leaves only its own conversations move.

A sandbox session lives in one replica only. The client that opened it remembers which; any other client asks all
replicas. When that replica is gone the session is lost, and its caller gets ``SessionLost`` at once instead of waiting
for the replica.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from google.protobuf.message import Message

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients.transport import Requests, Transport
from fathom.core.cache import BoundedCache
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, NotFound, NotReady, Overloaded, SessionLost
from fathom.domain.chat.affinity import generation_key, rendezvous_weight
from fathom.transport.rpc.contract import Method

# A replica is passed over when it has more than this factor times the mean of this client's calls in flight. If
# smaller, conversations leave the replica that has their prefix cached; if larger, a popular one is a queue.
CROWDED = 1.25
# Seconds without calls for a replica that failed, unless it says itself when to come back.
DOWN_S = 2.0
# Maximum number of sessions whose replica is remembered, and of characters of an id on average: the sandbox makes them
# of 37. Only ids that a replica has answered for are remembered.
REMEMBERED, MAX_SESSION_CHARS = 10_000, 64


@dataclass(eq=False)
class Replica:
    """One replica and this client's view of its load and health."""

    name: str
    transport: Transport
    in_flight: int = 0
    down_until: float = 0.0


class StickyTransport:
    """Transport that sends each call to one of several replicas; one that failed is skipped for ``DOWN_S`` seconds."""

    def __init__(
        self, transports: Sequence[tuple[str, Transport]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas = [Replica(name, transport) for name, transport in transports]
        self._clock = clock
        # Without an age: a session that is used rarely still lives in one place only.
        self._homes = BoundedCache[str, Replica](
            max_entries=REMEMBERED, max_bytes=REMEMBERED * MAX_SESSION_CHARS, ttl_s=math.inf, clock=clock
        )

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        if session := session_of(request):
            async with aclosing(self._at_home(session, method, request, call)) as responses:
                return await anext(responses)
        with self._use_replica(affinity(request)) as replica:
            response = await replica.transport.unary(method, request, call)
            if isinstance(response, sandbox.CreateSessionResponse):
                self._remember(response.session_id, replica)
            return response

    async def stream(self, method: Method, requests: Requests, call: Call) -> AsyncGenerator[Message, None]:
        if method.client_streaming:
            key = ""
        else:
            request = requests = requests if isinstance(requests, Message) else await anext(requests)
            if session := session_of(request):
                async with aclosing(self._at_home(session, method, request, call)) as responses:
                    async for response in responses:
                        yield response
                return
            key = affinity(request)
        with self._use_replica(key) as replica:
            async with aclosing(replica.transport.stream(method, requests, call)) as responses:
                async for response in responses:
                    yield response

    async def ready(self, service: str, timeout_s: float) -> None:
        """Return when the next replica is ready; one that is not is left alone, as after a failed call."""
        with self._use_replica("") as replica:
            await replica.transport.ready(service, timeout_s)

    async def _at_home(
        self, session: str, method: Method, request: Message, call: Call
    ) -> AsyncGenerator[Message, None]:
        """Send the call to the replica that holds the session; raise ``SessionLost`` when it cannot be reached."""
        home = self._homes.get(session)
        for last, replica in mark_last([home] if home is not None else self._replicas):
            try:
                with self._use_replica("", replica):
                    async with aclosing(replica.transport.stream(method, request, call)) as responses:
                        async for response in responses:
                            self._remember(session, replica)
                            yield response
                return
            except (NotFound, DependencyFailed) as error:
                if isinstance(error, NotFound) and error.metadata.get("kind") != "session":
                    raise
                # Only a replica that is known to have had the session proves its loss; one of several that were asked
                # may just be down.
                if self._homes.pop(session) is not None and isinstance(error, DependencyFailed):
                    raise SessionLost(session, f"{replica.name}, which had it: {error.message}") from error
                if last or home is not None:
                    raise

    def _remember(self, session: str, replica: Replica) -> None:
        self._homes.put(session, replica, len(session))

    @contextmanager
    def _use_replica(self, key: str, chosen: Replica | None = None) -> Iterator[Replica]:
        replica = chosen or self.pick(key)
        replica.in_flight += 1
        try:
            yield replica
        except (NotReady, DependencyFailed, Overloaded) as error:
            # The client tries again; it must not meet the same one while that is ill.
            # Overloaded counts as down, too: the replica said that it wants no calls for this time.
            replica.down_until = self._clock() + max(DOWN_S, error.retry_after_s or 0.0)
            raise
        finally:
            replica.in_flight -= 1

    def pick(self, key: str) -> Replica:
        """Return the replica for this key; without a key, the one with the fewest calls in flight."""
        now = self._clock()
        # With all of them down any is as good as another; the retry's pause is what helps.
        well = [replica for replica in self._replicas if replica.down_until <= now] or self._replicas
        if not key:
            return min(well, key=lambda replica: replica.in_flight)
        # Including the call that is being placed, so that there is room for one even on an idle client.
        room = math.ceil(CROWDED * (sum(replica.in_flight for replica in well) + 1) / len(well))
        ranked = sorted(well, key=lambda replica: rendezvous_weight(key, replica.name))
        return next((replica for replica in ranked if replica.in_flight < room), ranked[0])

    async def close(self) -> None:
        for replica in self._replicas:
            await replica.transport.close()


def affinity(request: Message) -> str:
    """Return a routing key that is equal for all turns of a conversation; empty if the request has no affinity.

    A generation has the key of its conversation (``fathom.domain.chat.affinity``). A request for a sandbox session has
    its ``request_id`` as key, so that a repeated request reaches the same replica from any client.
    """
    if isinstance(request, sandbox.CreateSessionRequest):
        return request.request_id
    return generation_key(request) if isinstance(request, policy.GenerateRequest) else ""


def session_of(request: Message) -> str:
    """Return the id of the sandbox session that a request refers to; empty for other requests."""
    session = getattr(request, "session_id", "")
    return session if isinstance(session, str) and request.DESCRIPTOR.file.package == "fathom.api.sandbox.v1" else ""


def mark_last(replicas: Sequence[Replica]) -> Iterator[tuple[bool, Replica]]:
    """Yield each replica with a flag that is True for the last one."""
    for place, replica in enumerate(replicas, 1):
        yield place == len(replicas), replica

"""A recording: results of calls by what was asked, in the object store, for one version of the system.

A call is found again by its service, method and request, without what differs between two plays of one episode: ids of
requests and of the run. Calls of a session that has a state (the sandbox) are found by all of its calls so far. Of
equal requests of one episode the first finds the first result, the second the second.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from google.rpc.status_pb2 import Status

from fathom import __version__
from fathom.core.call import current_call
from fathom.core.errors import FailedPrecondition, FathomError, NotFound, is_retryable
from fathom.core.ids import content_hash
from fathom.services.planner.model.recording import Mode, RecordingChoice
from fathom.transport.rpc.contract import proto_hash
from fathom.transport.status import from_status, to_status
from fathom.transport.store import ObjectStore

JSON = "application/json"
# Services whose calls change what later ones give.
STATEFUL = frozenset({"sandbox"})
RUN = "{run}"


@dataclass(frozen=True)
class Versions:
    """Versions with which a recording was made: the distribution and the contract."""

    fathom: str
    proto_hash: str

    @classmethod
    def current(cls) -> Versions:
        return cls(__version__, proto_hash())


class RecordingMismatch(FailedPrecondition):
    """The recording was made by another version, or there is none."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"recording {name!r} {message}", metadata={"field": "recording", "recording": name})


class RecordingMiss(FailedPrecondition):
    """A strict replay has made a call that the recording does not hold."""

    def __init__(self, name: str, call: str) -> None:
        super().__init__(f"recording {name!r} has no result of this call of {call}", metadata={"recording": name})


class Recordings:
    """All recordings of a store, by tenant and name."""

    def __init__(self, store: ObjectStore, versions: Versions | None = None) -> None:
        self._store, self._versions = store, versions or Versions.current()

    async def open(self, choice: RecordingChoice, date: str = "") -> str:
        """Prepare a recording for its mode; return the ISO date of its episodes, which is ``date`` for a new one.

        Prompts say the date: episodes of another day would ask their models something else. Raises
        ``RecordingMismatch`` for a recording of other versions, or for none.
        """
        key = f"{make_prefix(choice.name)}manifest.json"
        try:
            found = json.loads(await self._store.get(key))
        except NotFound:
            if choice.mode is not Mode.RECORD:
                raise RecordingMismatch(choice.name, "does not exist") from None
            # Without a date only the name is tried: the first episode writes it.
            if date:
                await self._store.put(key, json.dumps({**asdict(self._versions), "date": date}).encode(), JSON)
            return date
        if any(found.get(name) != value for name, value in asdict(self._versions).items()):
            made, here = found.get("fathom"), self._versions.fathom
            detail = f"fathom {made}, here is {here}" if made != here else "another contract of the same release"
            raise RecordingMismatch(choice.name, f"was made with {detail}: results of two versions do not mix")
        return str(found["date"])

    def tape(self, choice: RecordingChoice, run_id: str) -> Tape:
        """Return the calls of one episode against a recording that is open."""
        return Tape(self._store, choice, make_prefix(choice.name), run_id)


def make_prefix(name: str) -> str:
    """Return the prefix of a recording's keys; each tenant has its own names."""
    call = current_call()
    return f"recordings/{call.tenant if call else 'default'}/{name}/"


class Tape:
    """Calls of one episode against a recording; ``missed`` is the first call that a strict replay did not find."""

    def __init__(self, store: ObjectStore, choice: RecordingChoice, prefix: str, run_id: str) -> None:
        self._store, self._choice, self._prefix, self._run_id = store, choice, prefix, run_id
        self._made: Counter[str] = Counter()
        self._states: dict[str, str] = {}
        self.missed: RecordingMiss | None = None

    async def play(
        self, service: str, method: str, request: str, call: Callable[[], Awaitable[Sequence[bytes]]]
    ) -> Sequence[bytes]:
        """Return the results of a call: of the recording or of ``call``, by the mode.

        ``request`` is its canonical text. Errors that a repetition would meet again are recorded too. Raises
        ``RecordingMiss``, and what was raised when it was recorded.
        """
        state = self._states.get(service, "")
        asked = content_hash([service, method, request.replace(self._run_id, RUN), state])
        self._made[asked] += 1
        if service in STATEFUL:
            self._states[service] = asked
        key = f"{self._prefix}calls/{asked}-{self._made[asked]}.json"
        try:
            if self._choice.mode is Mode.RECORD:
                return await self._record(key, call)
            return await self._replay(key, f"{service}.{method}", call)
        except FathomError as error:
            if is_retryable(error):
                # The client tries again, which is the same call to a recording.
                self._made[asked] -= 1
                self._states[service] = state
            raise

    async def _replay(self, key: str, name: str, call: Callable[[], Awaitable[Sequence[bytes]]]) -> Sequence[bytes]:
        if self.missed is not None:
            raise self.missed
        try:
            stored = json.loads(await self._store.get(key))
        except NotFound:
            if self._choice.mode is Mode.FALLBACK:
                return await call()
            self.missed = RecordingMiss(self._choice.name, name)
            raise self.missed from None
        if stored["error"]:
            raise from_status(Status.FromString(base64.b64decode(stored["error"])))
        return [base64.b64decode(part) for part in stored["results"]]

    async def _record(self, key: str, call: Callable[[], Awaitable[Sequence[bytes]]]) -> Sequence[bytes]:
        try:
            results = await call()
        except FathomError as error:
            # An outage is no property of the call: a replay must not repeat it.
            if not is_retryable(error):
                await self._put(key, (), base64.b64encode(to_status(error).SerializeToString()).decode())
            raise
        await self._put(key, results, "")
        return results

    async def _put(self, key: str, results: Sequence[bytes], error: str) -> None:
        stored = {"results": [base64.b64encode(part).decode() for part in results], "error": error}
        await self._store.put(key, json.dumps(stored).encode(), JSON)


# A context variable, as the current call is: it follows the episode's tasks through code that knows nothing of it.
_current: ContextVar[Tape | None] = ContextVar("fathom_tape", default=None)


def current_tape() -> Tape | None:
    """Return the tape of the episode that is being played; None for one that is not recorded."""
    return _current.get()


@contextmanager
def playing(tape: Tape | None) -> Iterator[None]:
    """Make ``tape`` the current one within the block."""
    token = _current.set(tape)
    try:
        yield
    finally:
        _current.reset(token)

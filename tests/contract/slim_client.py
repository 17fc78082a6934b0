"""A program of somebody who installed the client alone; run by ``test_slim_client`` where there is nothing else.

    python slim_client.py grpc://HOST:PORT grpc://HOST:PORT

calls a retrieval and a sandbox service and prints what it met as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients import Clients, RetryPolicy, connect
from fathom.core.call import Call, calling
from fathom.core.errors import DeadlineExceeded, FathomError, InvalidField, Overloaded


async def catch(tenant: str, call: Any) -> FathomError:
    """Return the error of a call made as ``tenant``, whose calls the server of the test refuses or holds."""
    with calling(Call.new(tenant=tenant)):
        try:
            await call
        except FathomError as error:
            return error
    raise AssertionError(f"{tenant} was served")


async def read(clients: Clients) -> list[sandbox.ExecuteResponse]:
    """Return all responses of a stream."""
    request = sandbox.ExecuteRequest(session_id="s", code="1 + 1")
    return [response async for response in clients.sandbox.execute(request)]


async def main(retrieval_url: str, sandbox_url: str) -> None:
    clients = connect({"retrieval": retrieval_url, "sandbox": sandbox_url}, policy=RetryPolicy(attempts=2))
    try:
        search = clients.retrieval.search
        found = await search(retrieval.SearchRequest(queries=["drawdown"]))
        streamed = await read(clients)
        invalid = await catch("invalid", search(retrieval.SearchRequest(queries=["drawdown"])))
        streamed_invalid = await catch("invalid", read(clients))
        busy = await catch("busy", clients.sandbox.create_session(sandbox.CreateSessionRequest()))
        late = await catch("slow", search(retrieval.SearchRequest(queries=["drawdown"]), timeout_s=0.2))
        assert isinstance(invalid, InvalidField)
        assert isinstance(streamed_invalid, InvalidField)
        assert isinstance(busy, Overloaded)
        assert isinstance(late, DeadlineExceeded)
        print(
            json.dumps(
                {
                    "results": len(found.results),
                    "streamed": len(streamed),
                    "fields": [invalid.field, streamed_invalid.field],
                    "retry_after_s": busy.retry_after_s,
                }
            )
        )
    finally:
        await clients.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Names of models in requests: checked with policy before anything is begun with them."""

from __future__ import annotations

from fathom.api.policy.v1.policy_pb2 import GetModelRequest
from fathom.clients.connect import Clients
from fathom.core.errors import FathomError, NotFound

# Only decides whether a request is refused at once: what is begun has its own patience with policy.
PROBE_TIMEOUT_S = 2.0


async def require_model(clients: Clients, name: str, field: str = "model") -> None:
    """Raise ``NotFound`` with the request's field for a model or role that policy does not know.

    Succeeds while policy cannot be asked.
    """
    try:
        await clients.policy.get_model(GetModelRequest(model=name), timeout_s=PROBE_TIMEOUT_S)
    except NotFound as error:
        raise NotFound("model", name, error.nearest, field=field) from error
    except FathomError:
        return

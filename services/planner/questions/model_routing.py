"""Scene and mode of a question by a language model, for what the classifier is unsure of."""

from __future__ import annotations

import asyncio

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.quoting import neutral
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.questions.routing import Mode, Scene

REFERENCE = "rules"
"""Engine of the reference policy, which is no language model."""
MAX_TOKENS = 400
SYSTEM = """Sort a question for a financial assistant. Answer with one JSON object: {"scene": "...", "mode": "..."}.
scene: data_query (one figure or one series of a few named things), table_query (a list, screen or ranking of many \
things), customer_service (the product, the account, a fault), question_answering (everything else).
mode: direct (one look-up, a greeting, the meaning of a term), workflow (coverage of a topic that can be planned at \
once), research (each step depends on the last one, or something must be computed)."""


async def find_language_model(clients: Clients, model: str) -> str:
    """Return the name of the language model behind a model or role; "" for the reference policy or none."""
    try:
        found = (await clients.policy.get_model(pb.GetModelRequest(model=model))).model
    except FathomError:
        return ""
    return "" if found.engine == REFERENCE else found.name


class ModelRouter:
    """Asks the configured model, within a time limit."""

    def __init__(self, clients: Clients, model: str, timeout_s: float) -> None:
        self._clients, self._model, self._timeout_s = clients, model, timeout_s

    async def __call__(self, question: str) -> tuple[Scene, Mode] | None:
        """Return the model's choice; None for the reference policy, a late or an unusable answer."""
        model = await find_language_model(self._clients, self._model)
        if not model:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                said = await complete(self._clients, model, SYSTEM, neutral(question), MAX_TOKENS)
        except (FathomError, TimeoutError):
            return None
        found = read_object(said) or {}
        try:
            scene, mode = Scene(str(found.get("scene"))), Mode(str(found.get("mode")))
        except ValueError:
            return None
        return scene, mode if scene is Scene.QUESTION_ANSWERING else Mode.DIRECT

"""A question is routed by one request to the encoder, whatever is asked of its vectors."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.services.planner.classification.classifier import FORM_FILE, Classifier, load_heads
from fathom.services.planner.classification.vectors import DatafetchVectors
from fathom.services.planner.understanding import Understanding

pytestmark = pytest.mark.asyncio
DIM = 384


class Datafetch:
    """Datafetch that notes which texts each request brings."""

    def __init__(self, encoder: str) -> None:
        self._encoder = encoder
        self.requests: list[list[str]] = []

    async def encode_texts(self, request: pb.EncodeTextsRequest, timeout_s: float) -> pb.EncodeTextsResponse:
        self.requests.append(list(request.texts))
        rows = np.random.default_rng(len(self.requests)).normal(size=(len(request.texts), DIM))
        return pb.EncodeTextsResponse(encoder=self._encoder, dim=DIM, vectors=rows.astype("<f4").tobytes())


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("How did Apple do?", ["How did Apple do?", "How did Apple do"]),
        ("gold since 1990", ["gold since 1990"]),
        ("Write a report: how did gold do?", ["Write a report: how did gold do?", "Write a report", "how did gold do"]),
    ],
)
async def test_route_and_form_ask_the_encoder_once(question: str, texts: list[str]) -> None:
    heads, unused = load_heads(), cast(Any, None)
    datafetch = Datafetch(heads.encoder)
    clients: Clients = type("Fake", (), {"datafetch": datafetch})()
    vectors = DatafetchVectors(clients, 5.0, lambda error: None)
    forms = Classifier(vectors, load_heads(FORM_FILE))

    async def ask_model(question: str) -> None:
        """Answer nothing: no model is there."""

    understanding = Understanding(
        vectors, Classifier(vectors, heads), forms, forms, forms, forms, unused, ask_model, unused
    )
    await understanding.route(question)
    assert [sorted(request) for request in datafetch.requests] == [sorted(texts)]

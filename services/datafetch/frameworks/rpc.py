"""The framework library as the answer of ``ListFrameworks``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.errors import InvalidField
from services.datafetch.frameworks.load import BUNDLED, Frameworks, load_frameworks
from services.datafetch.frameworks.model import LEVELS, Placed

MAX_QUESTION_CHARS = 2_000


class FrameworkLibrary:
    """Ready after ``start``."""

    def __init__(self, extra: Path | None) -> None:
        self._folders = (BUNDLED,) if extra is None else (BUNDLED, extra)
        self._library: Frameworks

    async def start(self) -> None:
        """Reads the frameworks; raises ``InvalidFramework`` naming file, place and field."""
        self._library = await asyncio.to_thread(load_frameworks, *self._folders)

    def list(self, request: pb.ListFrameworksRequest) -> pb.ListFrameworksResponse:
        """The frameworks that were asked for; raises ``InvalidField`` and ``NotFound``."""
        if len(request.question) > MAX_QUESTION_CHARS:
            raise InvalidField("question", f"must have at most {MAX_QUESTION_CHARS:,} characters")
        if request.limit < 0:
            raise InvalidField("limit", "must not be negative")
        wanted = [self._library[topic].topic for topic in request.topics] or list(self._library.topics)
        scores = dict.fromkeys(wanted, 0.0)
        if request.question.strip():
            found = self._library.classify(request.question)
            scores = {topic: score for topic, score in found if topic in wanted}
        topics = list(scores)[: request.limit or None]
        level = request.level or LEVELS
        return pb.ListFrameworksResponse(frameworks=[self._framework(t, scores[t], level) for t in topics])

    def _framework(self, topic: str, score: float, level: int) -> pb.Framework:
        framework = self._library[topic]
        return pb.Framework(
            topic=topic,
            name=framework.name,
            name_zh=framework.zh,
            about=framework.about,
            score=score,
            nodes=[node_to_proto(place) for place in self._library.nodes(topic, level)],
        )


def node_to_proto(place: Placed) -> pb.FrameworkNode:
    node = place.node
    return pb.FrameworkNode(
        path=place.path,
        name=node.name,
        name_zh=node.zh,
        indicators=node.ids,
        hint=node.hint,
        tool=f"FRAMEWORK_TOOL_{node.tool.name}",
    )

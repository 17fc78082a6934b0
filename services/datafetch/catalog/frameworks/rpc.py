"""Response of the RPC ``ListFrameworks``."""

from __future__ import annotations

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.frameworks.load import Frameworks
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, Placed

# The same limit as for Query, so that a question is accepted or refused by both.
MAX_QUESTION_CHARS = 2_000


def list_frameworks(library: Frameworks, request: pb.ListFrameworksRequest) -> pb.ListFrameworksResponse:
    """Return the requested frameworks; raises ``InvalidField`` and ``NotFound``."""
    if len(request.question) > MAX_QUESTION_CHARS:
        raise InvalidField("question", f"must have at most {MAX_QUESTION_CHARS:,} characters")
    if request.limit < 0:
        raise InvalidField("limit", "must not be negative")
    # Looked up even if only their ids are needed: an unknown topic is an error with its nearest names.
    wanted = [library[topic].topic for topic in request.topics] or list(library.topics)
    scores = dict.fromkeys(wanted, 0.0)
    if request.question.strip():
        found = library.classify(request.question)
        scores = {topic: score for topic, score in found if topic in wanted}
    topics = list(scores)[: request.limit or None]
    level = request.level or LEVELS
    frameworks = [framework_to_proto(library, topic, scores[topic], level) for topic in topics]
    return pb.ListFrameworksResponse(frameworks=frameworks)


def framework_to_proto(library: Frameworks, topic: str, score: float, level: int) -> pb.Framework:
    framework = library[topic]
    return pb.Framework(
        topic=topic,
        name=framework.name,
        name_zh=framework.zh,
        about=framework.about,
        score=score,
        nodes=[node_to_proto(place) for place in library.list_nodes(topic, level)],
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

"""Responses of the RPCs ``ListFrameworks``, ``GetFrameworkFile`` and ``CheckFramework``."""

from __future__ import annotations

from collections.abc import Collection

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.frameworks.draft import check_draft
from fathom.services.datafetch.catalog.frameworks.load import MAX_FILE_BYTES, Frameworks, Problem, check_level
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, Framework, Placed, walk

# The same limit as for Query, so that a question is accepted or refused by both.
MAX_QUESTION_CHARS = 2_000
# Longer quotations in a problem hide what it says.
MAX_QUOTED_CHARS = 400


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
    level = check_level(request.level or LEVELS)
    frameworks = [framework_to_proto(library[topic], scores[topic], level) for topic in topics]
    return pb.ListFrameworksResponse(frameworks=frameworks)


def get_framework_file(library: Frameworks, request: pb.GetFrameworkFileRequest) -> pb.GetFrameworkFileResponse:
    """Return the text of a topic's file as it was read; raises ``NotFound`` with the nearest topics."""
    topic = library[request.topic].topic
    file = library.files[topic]
    return pb.GetFrameworkFileResponse(topic=topic, name=file.name, text=file.text, is_bundled=file.is_bundled)


def check_framework(
    library: Frameworks, known: Collection[str], request: pb.CheckFrameworkRequest
) -> pb.CheckFrameworkResponse:
    """Return what is wrong with a text, or the framework as it would be listed; raises ``InvalidField``."""
    if not request.text.strip():
        raise InvalidField("text", "must not be empty")
    # More than a file may have is not read at all.
    if len(request.text) > MAX_FILE_BYTES:
        raise InvalidField("text", f"must have at most {MAX_FILE_BYTES:,} bytes")
    if request.replaces:
        library[request.replaces]
    checked = check_draft(library, known, request.text, request.replaces)
    response = pb.CheckFrameworkResponse(
        is_valid=not checked.problems, problems=[problem_to_proto(one) for one in checked.problems]
    )
    if checked.framework is not None:
        response.framework.CopyFrom(framework_to_proto(checked.framework, 0.0, LEVELS))
        response.name = f"{checked.framework.topic}.yaml"
    return response


def problem_to_proto(problem: Problem) -> pb.FrameworkProblem:
    # A name and a message quote the text, which may be one word of 256 KB.
    return pb.FrameworkProblem(
        place=shorten(problem.place), field=shorten(problem.field), message=shorten(problem.message), line=problem.line
    )


def shorten(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}…"


def framework_to_proto(framework: Framework, score: float, level: int) -> pb.Framework:
    return pb.Framework(
        topic=framework.topic,
        name=framework.name,
        name_zh=framework.zh,
        about=framework.about,
        score=score,
        nodes=[node_to_proto(place) for place in walk(framework.nodes, level)],
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

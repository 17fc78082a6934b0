"""Tool call arguments: tolerant parsing, strict validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry as References

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.tolerant import read_object

# Parsing must stay cheap; the largest legitimate argument is a cell of 65,536 characters.
MAX_CHARS = 200_000
# A model corrects a few problems at once; a longer list only costs tokens.
MAX_PROBLEMS, PROBLEM_CHARS = 3, 240
MAX_CHECKERS = 256
"""Capacity of the checker cache: enough for all tools of a planner, including external ones (schemas up to 16,000
characters each).
"""
WRAPPERS = ("arguments", "parameters", "args", "input")


def read_argument(call: ToolCall, name: str) -> str:
    """Return a text argument of a call; "" when it is absent, no text, or the call is malformed."""
    try:
        arguments = read_arguments(call)
    except InvalidField:
        return ""
    value = arguments.get(name, unwrap_inner(arguments).get(name))
    return value if isinstance(value, str) else ""


def unwrap_inner(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object inside ``arguments``, where a model repeated the call's structure."""
    return next((arguments[name] for name in WRAPPERS if isinstance(arguments.get(name), dict)), {})


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments that the model meant; raise ``InvalidField`` when there are none.

    Repairs common JSON mistakes, an object written as a string, and an object nested inside ``arguments``.
    """
    field = f"{call.name}.arguments"
    if len(call.arguments_json) > MAX_CHARS:
        raise InvalidField(field, f"have {len(call.arguments_json):,} characters; at most {MAX_CHARS:,} are allowed")
    value = parse_json(field, call.arguments_json)
    # Some models write the object as a JSON string, i.e. encoded twice.
    if isinstance(value, str):
        value = parse_json(field, value)
    if not isinstance(value, dict):
        raise InvalidField(field, "must be a JSON object")
    return value


def parse_json(field: str, text: str) -> Any:
    if not text.strip():
        return {}
    try:
        # strict=False: models write line breaks inside strings as they are.
        return json.loads(text, strict=False, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        mended = read_object(text, cut_off=False)
        # A value that cannot be serialised again (a set, infinity) was not malformed JSON but something else.
        if mended is None or not is_serialisable(mended):
            raise InvalidField(field, f"are no JSON: {error}") from error
        return mended


def refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def is_serialisable(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def make_validator(name: str, parameters: Mapping[str, Any]) -> ArgumentValidator:
    """Return the checker of a tool's schema.

    Raises ``jsonschema.SchemaError`` for an invalid schema.
    """
    # Cached by schema, because compiling one takes a millisecond and each episode has its own registry.
    # Unsorted: errors list the arguments in the schema's own order.
    return compile_validator(name, json.dumps(dict(parameters)))


@lru_cache(maxsize=MAX_CHECKERS)
def compile_validator(name: str, schema: str) -> ArgumentValidator:
    """Validate a schema, given as JSON, against the meta-schema and compile it; failures are not cached."""
    parameters = json.loads(schema)
    Draft202012Validator.check_schema(parameters)
    return ArgumentValidator(name, parameters)


class ArgumentValidator:
    """Validator of arguments against a tool's schema, which ``compile_validator`` has validated; stateless."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._name = name
        self._properties = parameters.get("properties", {})
        self._required = parameters.get("required", ())
        # No reference is ever resolved: a schema must not make the planner fetch anything.
        self._validator = Draft202012Validator(dict(parameters), registry=References())

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without ``intent``.

        Raise ``InvalidField`` with the problems and the expected signature.
        """
        own = {name: value for name, value in self._unwrap(arguments).items() if name != "intent"}
        # All at once: a model that hears of one mistake per round spends a round on each.
        problems = [self._describe(problem) for problem in self._validator.iter_errors(own)]
        if problems:
            path, message = problems[0]
            more = [f"{where}: {what}" for where, what in problems[1:MAX_PROBLEMS]]
            raise InvalidField(path, "; ".join([message, *more, f"expected: {self._format_signature()}"]))
        return own

    def _unwrap(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inner object where a model repeated the call's structure."""
        # A tool may really have an argument of such a name; then nothing is unwrapped.
        inner = [name for name in WRAPPERS if name in arguments and name not in self._properties]
        if len(inner) == 1 and not (set(arguments) - {inner[0], "intent", "name", "tool"}):
            value = arguments[inner[0]]
            value = read_object(value) if isinstance(value, str) else value
            if isinstance(value, dict):
                return value
        return arguments

    def _describe(self, problem: ValidationError) -> tuple[str, str]:
        path = ".".join([self._name, *(str(part) for part in problem.absolute_path)])
        message = problem.message
        return path, message if len(message) <= PROBLEM_CHARS else f"{message[:PROBLEM_CHARS]}…"

    def _format_signature(self) -> str:
        """Return the arguments on one line, required ones with a star."""
        parts = []
        for name, described in self._properties.items():
            known = described if isinstance(described, Mapping) else {}
            kind = known.get("type", "one of " + "|".join(map(str, known.get("enum", ()))))
            parts.append(f"{name}{'*' if name in self._required else ''} ({kind})")
        return cut_text(", ".join(["intent* (string)", *parts]))


def cut_text(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"

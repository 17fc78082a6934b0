"""Tool call arguments: tolerant parsing, strict validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry as References

from fathom.errors import InvalidField
from fathom.protocol.messages import ToolCall
from fathom.protocol.tolerant import read_object

MAX_CHARS = 200_000
MAX_PROBLEMS, PROBLEM_CHARS = 3, 240
MAX_CHECKERS = 256
"""Capacity of the checker cache: enough for all tools of a planner, including external ones (schemas up to 16,000
characters each).
"""
WRAPPERS = ("arguments", "parameters", "args", "input")


def argument(call: ToolCall, name: str) -> str:
    """Return a text argument of a call; "" when it is absent, no text, or the call is malformed."""
    try:
        arguments = read_arguments(call)
    except InvalidField:
        return ""
    value = arguments.get(name, inner(arguments).get(name))
    return value if isinstance(value, str) else ""


def inner(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object inside ``arguments``, where a model repeated the call's structure."""
    return next((arguments[name] for name in WRAPPERS if isinstance(arguments.get(name), dict)), {})


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments that the model meant; raise ``InvalidField`` when there are none.

    Repairs common JSON mistakes, an object written as a string, and an object nested inside ``arguments``.
    """
    field = f"{call.name}.arguments"
    if len(call.arguments_json) > MAX_CHARS:
        raise InvalidField(field, f"have {len(call.arguments_json):,} characters; at most {MAX_CHARS:,} are allowed")
    value = parsed(field, call.arguments_json)
    if isinstance(value, str):
        value = parsed(field, value)
    if not isinstance(value, dict):
        raise InvalidField(field, "must be a JSON object")
    return value


def parsed(field: str, text: str) -> Any:
    if not text.strip():
        return {}
    try:
        return json.loads(text, strict=False, parse_constant=refused)
    except (ValueError, RecursionError) as error:
        mended = read_object(text, cut_off=False)
        # What cannot be written as JSON again (a set, infinity) was no JSON in other clothes.
        if mended is None or not writable(mended):
            raise InvalidField(field, f"are no JSON: {error}") from error
        return mended


def refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def writable(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def make_checker(name: str, parameters: Mapping[str, Any]) -> Checker:
    """Return the checker of a tool's schema, cached by schema because compiling one takes a millisecond.

    Raises ``jsonschema.SchemaError`` for an invalid schema.
    """
    # In the schema's own order, for its errors name the arguments in it.
    return compile_checker(name, json.dumps(dict(parameters)))


@lru_cache(maxsize=MAX_CHECKERS)
def compile_checker(name: str, schema: str) -> Checker:
    """Validate a schema, given as JSON, against the meta-schema and compile it; failures are not cached."""
    parameters = json.loads(schema)
    Draft202012Validator.check_schema(parameters)
    return Checker(name, parameters)


class Checker:
    """Validator of arguments against a tool's schema, which ``compile_checker`` has validated; stateless."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._name = name
        self._properties = parameters.get("properties", {})
        self._required = parameters.get("required", ())
        # An empty set of references: a schema can make nobody fetch anything.
        self._validator = Draft202012Validator(dict(parameters), registry=References())

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without ``intent``.

        Raise ``InvalidField`` with the problems and the expected signature.
        """
        own = {name: value for name, value in self._unwrapped(arguments).items() if name != "intent"}
        problems = [self._said(problem) for problem in self._validator.iter_errors(own)]
        if problems:
            path, message = problems[0]
            more = [f"{where}: {what}" for where, what in problems[1:MAX_PROBLEMS]]
            raise InvalidField(path, "; ".join([message, *more, f"expected: {self._signature()}"]))
        return own

    def _unwrapped(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inner object where a model repeated the call's structure."""
        inner = [name for name in WRAPPERS if name in arguments and name not in self._properties]
        if len(inner) == 1 and not (set(arguments) - {inner[0], "intent", "name", "tool"}):
            value = arguments[inner[0]]
            value = read_object(value) if isinstance(value, str) else value
            if isinstance(value, dict):
                return value
        return arguments

    def _said(self, problem: ValidationError) -> tuple[str, str]:
        path = ".".join([self._name, *(str(part) for part in problem.absolute_path)])
        message = problem.message
        return path, message if len(message) <= PROBLEM_CHARS else f"{message[:PROBLEM_CHARS]}…"

    def _signature(self) -> str:
        """Return the arguments on one line, required ones with a star."""
        parts = []
        for name, described in self._properties.items():
            known = described if isinstance(described, Mapping) else {}
            kind = known.get("type", "one of " + "|".join(map(str, known.get("enum", ()))))
            parts.append(f"{name}{'*' if name in self._required else ''} ({kind})")
        return shortest(", ".join(["intent* (string)", *parts]))


def shortest(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"

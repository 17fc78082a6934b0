"""Conversion of external tool descriptions: validated, size-limited, without patterns or external references."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from fathom.core.errors import InvalidField
from fathom.core.ids import content_hash
from fathom.domain.chat.quoting import neutral

NAME = re.compile(r"^[A-Za-z0-9_-]{1,40}$")
# The schema is part of every prompt and is compiled; these limits are far above what real tools have.
MAX_SCHEMA_CHARS, MAX_DESCRIPTION_CHARS, MAX_DEPTH = 16_000, 800, 12
INTENT, THEIRS = "intent", "tool_intent"
# Patterns are programs for our matcher, references are addresses; neither is needed to fill in arguments.
DROPPED = frozenset({"pattern", "patternProperties", "$schema", "$id", "$comment", "examples", "default"})
SAID = frozenset({"title", "description"})


@dataclass(frozen=True)
class AdoptedTool:
    """An external tool under its name and schema in the registry. ``hash`` changes when the original changes."""

    name: str
    remote: str
    description: str
    parameters: Mapping[str, Any]
    renamed: bool
    """True when the tool's own argument ``intent`` is exposed as ``tool_intent``."""
    hash: str

    def to_remote(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments under the names that the external tool defines."""
        if not self.renamed:
            return dict(arguments)
        return {INTENT if name == THEIRS else name: value for name, value in arguments.items()}


def adopt_tool(server: str, remote: str, description: str, schema: Any) -> AdoptedTool:
    """Convert an external tool; raise ``InvalidField`` with the reason when it is unacceptable."""
    field = f"{server}.{remote[:60]}"
    if not NAME.match(remote):
        raise InvalidField(field, "is no name for a tool")
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidField(field, f"its schema is no JSON: {error}") from error
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise InvalidField(field, "its schema is not that of an object")
    if size > MAX_SCHEMA_CHARS:
        raise InvalidField(field, f"its schema has {size:,} characters; at most {MAX_SCHEMA_CHARS:,} are allowed")
    # Before it is checked: what is dropped may be what is invalid.
    parameters = clean_schema(schema, field, 0, names=False)
    properties = dict(parameters.get("properties") or {})
    required = list(parameters.get("required") or ())
    # The registry adds its own `intent` to every tool.
    if renamed := INTENT in properties:
        properties[THEIRS] = properties.pop(INTENT)
        required = [THEIRS if name == INTENT else name for name in required]
    parameters = {**parameters, "type": "object", "properties": properties, "required": required}
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        raise InvalidField(field, f"its schema is none: {error.message[:200]}") from error
    # The description becomes part of the prompt: a server must not be able to write tags into it.
    said = neutral(" ".join(description.split()))[:MAX_DESCRIPTION_CHARS]
    return AdoptedTool(f"{server}_{remote}", remote, said, parameters, renamed, content_hash([remote, schema]))


def clean_schema(value: Any, field: str, depth: int, *, names: bool) -> Any:
    """Return a schema without dropped keywords, its texts neutralized; ``names`` says that keys are argument names."""
    if depth > MAX_DEPTH:
        raise InvalidField(field, f"its schema is deeper than {MAX_DEPTH}")
    if isinstance(value, list):
        return [clean_schema(item, field, depth + 1, names=False) for item in value]
    if not isinstance(value, Mapping):
        return neutral(value) if isinstance(value, str) else value
    found = {}
    for key, inner in value.items():
        if names and not NAME.match(key):
            raise InvalidField(field, f"{key[:60]!r} is no name for an argument")
        if not names and key in DROPPED:
            continue
        # Inside the document a reference is fine; another address would be fetched by whoever resolves it.
        if key in ("$ref", "$dynamicRef") and not names and not str(inner).startswith("#"):
            raise InvalidField(field, "its schema refers to another document")
        text = not names and key in SAID and isinstance(inner, str)
        found[key] = (
            neutral(inner)[:MAX_DESCRIPTION_CHARS]
            if text
            else clean_schema(inner, field, depth + 1, names=not names and key in ("properties", "$defs"))
        )
    return found

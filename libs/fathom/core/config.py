"""Settings from a YAML file and the environment; unknown keys are errors.

A service's settings are one frozen pydantic model. Values come, later over earlier, from the model's defaults, the
service's section of the YAML file, ``FATHOM_<SERVICE>_<FIELD>`` in the environment, and explicit overrides.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fathom.core.errors import FathomError
from fathom.core.extras import name_missing_extra

C = TypeVar("C", bound="Settings")


class Settings(BaseModel):
    """Base of every settings model: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ConfigError(FathomError):
    """A setting is unknown or has a wrong value; the message names key and origin."""

    code, reason = "INVALID_ARGUMENT", "INVALID_FIELD"


def load(
    model: type[C],
    section: str,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> C:
    """Build ``model`` for ``section`` (e.g. ``"retrieval"``).

    Raises ``ConfigError`` for a file that cannot be read, an unknown key or an invalid value.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers = (
        (str(file), read_section(file, section) if file else {}),
        ("environment", from_environment(model, section, os.environ if environ is None else environ)),
        ("overrides", dict(overrides or {})),
    )
    for origin, layer in layers:
        for key, value in layer.items():
            if key not in model.model_fields:
                raise ConfigError(
                    unknown_key(f"{section}.{key}", origin, model.model_fields), metadata={"field": f"{section}.{key}"}
                )
            values[key] = value
            origins[key] = origin
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        origin = origins.get(str(first["loc"][0]) if first["loc"] else "", "defaults")
        raise ConfigError(
            f"{section}.{path} (from {origin}): {first['msg']}", metadata={"field": f"{section}.{path}"}
        ) from error


def unknown_key(path: str, origin: str, known: Iterable[str]) -> str:
    """Return the message for an unknown key, with the nearest known one; ``path`` is dotted and ends in the key."""
    names = list(known)
    nearest = difflib.get_close_matches(path.rpartition(".")[2], names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(sorted(names))}"
    return f"unknown key {path} (from {origin}){hint}"


def read_file(path: Path) -> dict[str, Any]:
    """Read a YAML mapping of sections; raise ``ConfigError`` when it is not one, ``MissingExtra`` without PyYAML."""
    with name_missing_extra():
        import yaml
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {error}", metadata={"field": str(path)}) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping of sections", metadata={"field": str(path)})
    return content


def read_section(path: Path, section: str) -> dict[str, Any]:
    """Return one section of the file; empty when the file has none. Raises ``ConfigError``."""
    content = read_file(path).get(section) or {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: section {section} is no mapping", metadata={"field": section})
    return content


def from_environment(model: type[BaseModel], section: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of ``FATHOM_<SECTION>_<FIELD>``; values of structured fields are JSON."""
    prefix = f"FATHOM_{section.upper()}_"
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(prefix):
            continue
        key = name.removeprefix(prefix).lower()
        field = model.model_fields.get(key)
        values[key] = text if field is None else parse(field.annotation, text, name)
    return values


def parse(annotation: Any, text: str, name: str) -> Any:
    """Parse ``text`` as the annotated type, first as a plain string, then as JSON.

    Raises ``ConfigError`` when neither fits.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    try:
        return adapter.validate_strings(text)
    except ValidationError as as_string:
        try:
            return adapter.validate_json(text)
        except ValidationError as as_json:
            # Of what is written as JSON, what is wrong inside it; a plain text is wrong as a text.
            cause = (as_json if text.lstrip().startswith(("{", "[")) else as_string).errors()[0]
            said = ": ".join(part for part in (".".join(map(str, cause["loc"])), cause["msg"]) if part)
            raise ConfigError(f"{name}={text!r}: {said}", metadata={"field": name}) from None

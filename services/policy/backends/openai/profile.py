"""Request profile of one model: its family's differences, overridden by the model's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fathom.services.policy.backends.openai.families import UNKNOWN, Family, Schema, find_family, get_family
from fathom.services.policy.config import OpenAIModel


@dataclass(frozen=True)
class RequestProfile:
    """Form of the requests to one model."""

    family: Family
    model: str
    origin: str
    """Model and host by which opaque parts of replies know their own model."""
    omit: frozenset[str]
    rename: Mapping[str, str]
    add: Mapping[str, Any]
    set_by_settings: frozenset[str]
    """Fields that the settings add: a refusal of them is reported, not learned."""
    max_tokens: int
    greedy: bool
    schema: Schema


def make_profile(config: OpenAIModel) -> RequestProfile:
    """Return the profile of a model by its settings."""
    family = (get_family(config.family) if config.family else find_family(config.model, config.base_url)) or UNKNOWN
    # What the settings add is sent in any case, even where the family would leave it out.
    return RequestProfile(
        family,
        config.model,
        f"{config.model}@{urlsplit(config.base_url).hostname or ''}",
        (family.omit | config.omit) - set(config.add),
        {**family.rename, **config.rename},
        {**family.add, **config.add},
        frozenset(config.add),
        config.max_tokens or family.max_tokens,
        family.greedy if config.greedy is None else config.greedy,
        config.schema_output or family.schema,
    )

"""Ids of the catalog for the names in a text, the same for every language and spelling of a name."""

from __future__ import annotations

from fathom.services.datafetch.catalog.layer import Layer

# Of a longer text only the beginning is read, and no more of its names are returned.
MAX_NAMED_CHARS, MAX_NAMED = 1_000, 32


def find_catalog_ids(layer: Layer, text: str) -> list[str]:
    """Return the ids of the entities and indicators that a text names exactly; of an ambiguous name the likeliest."""
    read = text[:MAX_NAMED_CHARS]
    mentions = [*layer.entity_names.find(read), *layer.indicator_names.find(read)]
    return list(dict.fromkeys(mention.id for mention in mentions))[:MAX_NAMED]

"""Writing of the columns by which documents are filtered and looked up: from documents, or from columns and new ones.

Of a corpus that grows, only the new documents are read, and those of sources that they bring versions of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.services.retrieval.documents.model import Document, hash64, hash_content
from fathom.services.retrieval.documents.table import Table
from fathom.services.retrieval.documents.versions import (
    Version,
    find_deleted,
    find_ends,
    make_version,
    measure_publication,
)

Columns = dict[str, NDArray[Any]]
# Columns that only a corpus with analysts' reports has, and those of the names that their codes stand for.
REPORT_COLUMNS = {"house": "houses", "rating": "ratings"}


class Codes:
    """Dictionary encoding of texts, in order of first occurrence; ``known`` are those that have codes already."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.names: dict[str, int] = {text: code for code, text in enumerate(known)}

    def __call__(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def to_array(self) -> NDArray[np.uint8]:
        """Return the texts as JSON bytes."""
        # Not an array of texts, which would give each the width of the longest.
        return np.frombuffer(json.dumps(list(self.names)).encode(), dtype=np.uint8)


def write_columns(documents: Iterable[Document], offsets: NDArray[np.int64], path: Path) -> None:
    """Write the columns of documents, which are read once, in order."""
    columns, versions = collect_columns(documents, {})
    drop_empty(columns)
    columns |= {"until": np.array(find_ends(versions), np.int64), "deleted": np.array(find_deleted(versions), np.bool_)}
    np.savez(path, offsets=offsets, **columns)  # type: ignore[arg-type]


def extend_columns(base: Table, fresh: Iterable[Document], offsets: NDArray[np.int64], path: Path) -> None:
    """Write the columns of a table's documents and then ``fresh`` ones; ``offsets`` are those of all."""
    known = base.columns
    if not {"until", "deleted", "keys"} <= set(known):
        # Columns of earlier releases know no versions: what they lack is in the documents.
        write_columns((*base.documents, *fresh), offsets, path)
        return
    added, versions = collect_columns(fresh, known)
    columns: Columns = {
        name: np.concatenate([known[name], added[name]]) for name in ("published", "source", "type", "entity", "keys")
    }
    for name in REPORT_COLUMNS:
        earlier = known[name] if name in known else np.zeros(len(base), np.int32)
        columns[name] = np.concatenate([earlier, added[name]])
    columns |= {name: added[name] for name in ("sources", "types", "entities", *REPORT_COLUMNS.values())}
    drop_empty(columns)
    bounds = known["entity_bounds"]
    columns["entity_bounds"] = np.concatenate([bounds, added["entity_bounds"][1:] + bounds[-1]])
    for name in ("id", "content"):
        keys, order = known[f"{name}_keys"], known[f"{name}_order"]
        # Behind equal ones, as a stable sort of all would put them.
        places = np.searchsorted(keys, added[f"{name}_keys"], "right")
        columns[f"{name}_keys"] = np.insert(keys, places, added[f"{name}_keys"])
        columns[f"{name}_order"] = np.insert(order, places, added[f"{name}_order"] + np.int32(len(base)))
    columns |= extend_versions(base, versions, added["keys"])
    np.savez(path, offsets=offsets, **columns)  # type: ignore[arg-type]


def drop_empty(columns: Columns) -> None:
    """Remove the columns of reports where there are none: snapshots without any stay what they were, byte for byte."""
    for name, names in REPORT_COLUMNS.items():
        if json.loads(columns[names].tobytes()) == [""]:
            del columns[name], columns[names]


def extend_versions(base: Table, versions: Sequence[Version | None], keys: NDArray[np.uint64]) -> Columns:
    """Return until when each version holds and which are deleted, once ``versions`` with these keys have come."""
    until = np.concatenate([base.columns["until"], np.zeros(len(versions), np.int64)])
    deleted = np.concatenate([base.columns["deleted"], np.zeros(len(versions), np.bool_)])
    # What comes ends versions of its own sources alone; 0 is the key of what has none.
    touched = np.flatnonzero(np.isin(base.columns["keys"], keys[keys != 0]))
    earlier = [make_version(base.documents[int(at)]) for at in touched]
    places = np.concatenate([touched, np.arange(len(base), len(until))])
    until[places] = find_ends([*earlier, *versions])
    deleted[places] = find_deleted([*earlier, *versions])
    return {"until": until, "deleted": deleted}


def collect_columns(
    documents: Iterable[Document], known: Mapping[str, NDArray[Any]]
) -> tuple[Columns, list[Version | None]]:
    """Return the columns of documents and their versions; names that ``known`` columns have keep their codes."""
    sources, types, entities = (
        Codes(json.loads(known[name].tobytes()) if name in known else ()) for name in ("sources", "types", "entities")
    )
    # Code 0 is that of no house and no rating, so that columns can be added to a corpus that had none.
    houses, ratings = (
        Codes(json.loads(known[name].tobytes()) if name in known else ("",)) for name in REPORT_COLUMNS.values()
    )
    published, source, kind, bounds, members, idents, contents, keys = [], [], [], [0], [], [], [], []
    house, rating = [], []
    versions: list[Version | None] = []
    for document in documents:
        published.append(measure_publication(document))
        source.append(sources(document.source))
        kind.append(types(document.type))
        members += [entities(entity.casefold()) for entity in document.entities]
        bounds.append(len(members))
        house.append(houses(document.house.casefold()))
        rating.append(ratings(document.rating.casefold()))
        idents.append(hash64(document.id))
        contents.append(hash64(hash_content(document.title, document.text)))
        keys.append(hash64(document.key) if document.key else 0)
        versions.append(make_version(document))
    idents_array, contents_array = np.array(idents, np.uint64), np.array(contents, np.uint64)
    # Sorted keys and their positions, so that a look-up is a binary search in an array instead of a dictionary of
    # Python objects.
    by_id, by_content = np.argsort(idents_array, kind="stable"), np.argsort(contents_array, kind="stable")
    return {
        "published": np.array(published, np.int64), "keys": np.array(keys, np.uint64),
        "source": np.array(source, np.int32), "sources": sources.to_array(),
        "type": np.array(kind, np.int32), "types": types.to_array(),
        "entity_bounds": np.array(bounds, np.int64), "entity": np.array(members, np.int32),
        "entities": entities.to_array(),
        "house": np.array(house, np.int32), "houses": houses.to_array(),
        "rating": np.array(rating, np.int32), "ratings": ratings.to_array(),
        "id_keys": idents_array[by_id], "id_order": by_id.astype(np.int32),
        "content_keys": contents_array[by_content], "content_order": by_content.astype(np.int32),
    }, versions  # fmt: skip

"""Corpora of callers' own documents: whose they are, where they are stored, and when they are deleted.

They are as any other corpus, with three differences: their names are bound to the tenant, so that another tenant's name
leads nowhere; what is added is served at once; and all of them is below one prefix, so that they can be deleted.
"""

from __future__ import annotations

from fathom.core.call import bind, unbind
from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id
from fathom.transport.store import ObjectStore
from fathom.transport.store.lifetimes import Lifetimes

ROOT = "retrieval"
KIND = "docs"
"""Beginning of their ids, as ``new_id`` makes them; no other corpus may be called so."""
PREFIX = f"{KIND}_"
LIFETIMES = f"{ROOT}/own-lifetimes/"


def is_own(name: str) -> bool:
    """Return whether a corpus, by its bound name, belongs to somebody."""
    return unbind(name)[1].startswith(PREFIX)


def bind_corpus(corpus: str) -> str:
    """Return the name under which the caller's tenant has a corpus; that of a shared one is the same for all."""
    if "=" in corpus:
        raise InvalidField("corpus", f"no corpus {corpus[:100]!r}")
    return bind(checked_id("corpus", corpus)) if corpus.startswith(PREFIX) else corpus


def make_root(corpus: str) -> str:
    """Return the prefix of the store's keys for a corpus."""
    return f"{ROOT}/own/{corpus}" if is_own(corpus) else ROOT


def make_state_key(corpus: str) -> str:
    """Return the key of the state of a corpus: which snapshot is active."""
    return f"{make_root(corpus)}/corpora/{corpus}.json"


def make_lifetimes(store: ObjectStore, max_bytes: int) -> Lifetimes:
    """Return the record of own corpora, which deletes one with all its snapshots."""

    async def delete(corpus: str) -> None:
        # The state first: a corpus without one is not there, whatever else is left of it.
        await store.delete(make_state_key(corpus))
        for key in await store.keys(f"{make_root(corpus)}/"):
            await store.delete(key)

    return Lifetimes(store, LIFETIMES, "own documents", max_bytes, delete)

"""Lifetimes of imported sheets."""

from __future__ import annotations

from fathom.transport.store import ObjectStore
from fathom.transport.store.lifetimes import Lifetimes

PREFIX = "lifetimes/"
# All that the service writes of a sheet, its description first: whoever finds that finds the data too.
KEYS = ("tables/{}.pb", "tables/{}.parquet", "tables/{}.meaning", "exports/{}.csv", "exports/{}.xlsx")


def make_lifetimes(store: ObjectStore, max_bytes: int) -> Lifetimes:
    """Return the record of the imported sheets, which deletes a sheet with all that was made of it."""

    async def delete(sheet_id: str) -> None:
        for key in KEYS:
            await store.delete(key.format(sheet_id))

    return Lifetimes(store, PREFIX, "imported tables", max_bytes, delete)

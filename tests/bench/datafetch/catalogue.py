"""Sixty look-ups in the catalogue: how many the first page answers rightly, with the encoder and by words alone.

A look-up of something that is there is right when one of its series stands on the first page; one of something that is
not there, when the page names the word that nothing has. The look-ups were written before the search; it must not be
fitted on them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.call import Call
from tests.bench.datafetch.datafetch_gold import TABLES, service

LOOKUPS = Path(__file__).resolve().parents[2] / "golden/datafetch/catalogue_lookups.yaml"


def is_right(lookup: dict[str, Any], response: pb.SearchCatalogResponse) -> bool:
    """Return whether the first page answers a look-up."""
    if "absent" in lookup:
        named = [word.casefold() for word in response.unmatched]
        return not response.series or any(word.casefold() in named for word in lookup["absent"])
    shown = {f"{entity}.{row.indicator}" for row in response.series for entity in row.entities}
    return bool(shown & set(lookup["any"]))


async def run() -> None:
    """Print the share of right first pages by language and kind, and what was wrong."""
    lookups = yaml.safe_load(LOOKUPS.read_text(encoding="utf-8"))["lookups"]
    for title, settings in (("with meaning", {"embedding_wait_seconds": 600.0}), ("words alone", {"embedding": "off"})):
        async with service(TABLES, **settings) as (servicer, _):
            pages = [
                await servicer.SearchCatalog(pb.SearchCatalogRequest(query=lookup["query"]), Call.new())
                for lookup in lookups
            ]
        right = [is_right(lookup, page) for lookup, page in zip(lookups, pages, strict=True)]
        groups = {
            "all": [True] * len(lookups),
            "English": [lookup["query"].isascii() for lookup in lookups],
            "Chinese": [not lookup["query"].isascii() for lookup in lookups],
            "there": ["any" in lookup for lookup in lookups],
            "absent": ["absent" in lookup for lookup in lookups],
        }
        shown = [
            f"{name} {sum(r for r, m in zip(right, members, strict=True) if m)}/{sum(members)}"
            for name, members in groups.items()
        ]
        print(f"{title} ({'encoder' if pages[-1].has_meaning else 'no encoder'}): {', '.join(shown)}")
        print("  wrong: " + "; ".join(lookup["query"] for lookup, ok in zip(lookups, right, strict=True) if not ok))


if __name__ == "__main__":
    asyncio.run(run())

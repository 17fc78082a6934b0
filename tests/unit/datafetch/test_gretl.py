"""gretl's database: values of single precision are the decimals that the publisher wrote."""

from __future__ import annotations

import math
import struct

import pytest

from fathom.core.errors import CorruptData
from fathom.services.datafetch.warehouse.gretl import MISSING, read_database

INDEX = "# US\nUNRATE Unemployment Rate, %, SA\nM 1948.01 - 1948.04 n = 4\n"


def test_values_are_the_decimals_that_were_published() -> None:
    (series,) = read_database(INDEX, struct.pack("<4f", 3.4, MISSING, 25.7, -0.1))
    assert series.values[0:4:2] == [3.4, 25.7]
    assert series.values[3] == -0.1
    assert math.isnan(series.values[1])
    assert series.dates[0] == "1948-01-31"


def test_an_index_that_lists_other_values_is_refused() -> None:
    with pytest.raises(CorruptData, match="lists 4"):
        read_database(INDEX, struct.pack("<3f", 1, 2, 3))

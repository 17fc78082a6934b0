"""How the reference policy writes the values of a short table."""

from __future__ import annotations

import pytest

from fathom.services.policy.reference.tables import write_row


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        ("0.0709655", "fraction", "7.10% (2021-12-31)"),
        ("4.4", "%", "4.4% (2021-12-31)"),
        ("1250.0", "USD", "1,250 USD (2021-12-31)"),
        ("98.5", "index 2017=100", "98.5 (2021-12-31)"),
    ],
)
def test_a_value_has_its_unit_and_its_date(value: str, unit: str, written: str) -> None:
    sheet = {"columns": [{"name": "date", "type": "date32"}, {"name": "US.cpiaucsl", "type": "double", "unit": unit}]}
    assert list(write_row(["2021-12-31", value], sheet, {})) == [written]

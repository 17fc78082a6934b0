"""The tools of the data layer: the catalogue, typed queries, and SQL over what they fetched."""

from __future__ import annotations

from fathom.services.planner.tools.data.catalogue import DataCatalogue
from fathom.services.planner.tools.data.query import Data
from fathom.services.planner.tools.data.sql import Sql

__all__ = ["Data", "DataCatalogue", "Sql"]

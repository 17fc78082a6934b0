"""Analysis frameworks: the indicators that analysts look at for each of ten topics, and the topic of a question."""

from fathom.services.datafetch.catalog.frameworks.draft import find_unknown_ids
from fathom.services.datafetch.catalog.frameworks.load import (
    BUNDLED,
    Frameworks,
    InvalidFramework,
    Problem,
    load_frameworks,
    read_framework,
)
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, Framework, Node, Placed, Tool

__all__ = [
    "BUNDLED",
    "LEVELS",
    "Framework",
    "Frameworks",
    "InvalidFramework",
    "Node",
    "Placed",
    "Problem",
    "Tool",
    "find_unknown_ids",
    "load_frameworks",
    "read_framework",
]

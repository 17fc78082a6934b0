"""Analysis frameworks: the indicators that analysts look at for each of ten topics, and the topic of a question."""

from services.datafetch.frameworks.load import (
    BUNDLED,
    Frameworks,
    InvalidFramework,
    Problem,
    load_frameworks,
    read_framework,
)
from services.datafetch.frameworks.model import LEVELS, Framework, Node, Placed, Tool

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
    "load_frameworks",
    "read_framework",
]

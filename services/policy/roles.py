"""Which model does which work: roles stand where model names do, and lanes may have choices of their own.

A caller says ``planner``, ``writer``, ``coder`` or ``judge`` instead of a model, and the settings say which model
that is. So a system changes its models in one place, and training may judge with a smaller one than production.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fathom.call import Lane


class ModelRole(StrEnum):
    """What a model is asked to do."""

    PLANNER = "planner"
    """Plans, calls tools, changes the plan."""
    WRITER = "writer"
    """Writes what is read."""
    CODER = "coder"
    """Writes code for the sandbox."""
    JUDGE = "judge"
    """Compares and grades answers."""


@dataclass(frozen=True)
class Roles:
    """The models of roles; ``lanes`` first, then ``everywhere``, then ``default``, the model of all the rest."""

    default: str
    everywhere: Mapping[ModelRole, str]
    lanes: Mapping[Lane, Mapping[ModelRole, str]]

    @property
    def models(self) -> set[str]:
        """All models that some role or request without a name gets."""
        by_lane = (name for roles in self.lanes.values() for name in roles.values())
        return {self.default, *self.everywhere.values(), *by_lane}

    def model(self, name: str, lane: Lane, models: Collection[str]) -> str:
        """The model that ``name`` stands for in a lane. A model of that name goes before the role."""
        if not name:
            return self.default
        if name in models or name not in set(ModelRole):
            return name
        role = ModelRole(name)
        return self.lanes.get(lane, {}).get(role) or self.everywhere.get(role) or self.default

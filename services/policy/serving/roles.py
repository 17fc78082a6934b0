"""Model roles: names that callers use instead of a model, resolved by the settings for each lane.

A caller names ``planner``, ``writer``, ``coder`` or ``judge``, so that a deployment changes its models in one place,
and training may judge with a smaller model than production.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fathom.core.call import Lane


class ModelRole(StrEnum):
    """Task that a model is used for."""

    PLANNER = "planner"
    """Plans, calls tools, revises the plan."""
    WRITER = "writer"
    """Writes the text shown to users."""
    CODER = "coder"
    """Writes code for the sandbox."""
    JUDGE = "judge"
    """Compares and grades answers."""


@dataclass(frozen=True)
class Roles:
    """Models by role.

    ``lanes`` takes precedence over ``everywhere``, and ``default`` is the model of all other requests.
    """

    default: str
    everywhere: Mapping[ModelRole, str]
    lanes: Mapping[Lane, Mapping[ModelRole, str]]

    @property
    def models(self) -> set[str]:
        """Return the names of all models that some role, or a request without a model, resolves to."""
        by_lane = (name for roles in self.lanes.values() for name in roles.values())
        return {self.default, *self.everywhere.values(), *by_lane}

    def model(self, name: str, lane: Lane, models: Collection[str]) -> str:
        """Resolve ``name`` in a lane to a model name. A model takes precedence over a role of the same name."""
        if not name:
            return self.default
        # A name that is neither goes through as it is: the caller gets NotFound with the models that exist.
        if name in models or name not in set(ModelRole):
            return name
        role = ModelRole(name)
        return self.lanes.get(lane, {}).get(role) or self.everywhere.get(role) or self.default

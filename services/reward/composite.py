"""Composites: named weighted sums of graders, configured in the settings."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, model_validator

from fathom.core.config import Settings
from fathom.domain.grading.graders import GRADERS, Grader, Parameter, Score
from fathom.services.reward.code_grader import CODE_GRADERS

# Keeps a mistyped weight from dominating every other part of a reward.
MAX_WEIGHT = 100.0
ALL_GRADERS: Mapping[str, Grader] = {**GRADERS, **CODE_GRADERS}


class Part(Settings):
    """One grader of a composite."""

    grader: str
    """Name of the grader."""
    weight: float = Field(default=1.0, ge=-MAX_WEIGHT, le=MAX_WEIGHT)
    """Weight, unless the request sets ``<part>_weight``; below 0 it is a penalty."""
    parameters: Mapping[str, float] = Field(default_factory=dict)
    """Parameters of the grader; absent ones have their defaults."""
    optional: bool = False
    """Leave the part out where the item lacks its input, e.g. the suitable tools."""

    @model_validator(mode="after")
    def _is_known(self) -> Part:
        grader = ALL_GRADERS.get(self.grader)
        if grader is None:
            raise ValueError(f"no grader {self.grader!r}; known: {', '.join(ALL_GRADERS)}")
        # At start and not at the first request: a mistyped parameter would grade by its default.
        unknown = sorted(set(self.parameters) - set(grader.parameters))
        if unknown:
            raise ValueError(f"grader {self.grader!r} has no {unknown[0]!r}")
        return self


class Composite(Settings):
    """A sum of parts; ``gate`` names one whose value multiplies the others, so that form pays only with content."""

    description: str = ""
    """Purpose of the composite."""
    parts: Mapping[str, Part] = Field(min_length=1)
    """Parts by name."""
    gate: str = ""
    """Name of the gate part, or ""."""

    @model_validator(mode="after")
    def _gate_is_a_part(self) -> Composite:
        if self.gate and self.gate not in self.parts:
            raise ValueError(f"gate {self.gate!r} is none of {', '.join(self.parts)}")
        return self

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Return the weight parameters that a request may set: their size, while the sign comes from the settings."""
        return {f"{name}_weight": Parameter(abs(part.weight), MAX_WEIGHT) for name, part in self.parts.items()}

    def fold(self, scores: Mapping[str, Score], parameters: Mapping[str, float]) -> Score:
        """Combine the parts' scores to ``sum of weight · value``, with their values and components as components.

        Parts that were left out count as nothing. With a gate: ``gate's own + gate · (sum of the others)``.
        """
        total, reasons = 0.0, list[str]()
        components: dict[str, float] = {}
        # A gate that was left out as optional closes nothing.
        gate = scores[self.gate].value if self.gate in scores else 1.0
        for name, score in scores.items():
            # Requests set sizes only, so that none turns a penalty into a reward.
            sign = -1.0 if self.parts[name].weight < 0 else 1.0
            weighted = sign * parameters[f"{name}_weight"] * score.value
            total += weighted if name == self.gate else gate * weighted
            components |= {name: score.value} | {f"{name}.{key}": value for key, value in score.components.items()}
            reasons += [f"{name}: {score.reason}"] if score.reason else []
        return Score(total, components, "; ".join(reasons))


def build_default_composites() -> Mapping[str, Composite]:
    """Return the composites available without any settings."""
    return {
        "agent": Composite(
            description="Outcome by exact match, expected tools, and successful calls",
            parts={
                "outcome": Part(grader="em_tolerant", weight=1.0),
                "tool_choice": Part(grader="tool_choice", weight=0.2, optional=True),
                "steps": Part(grader="tool_steps", weight=0.1),
            },
        ),
        "agent_short": Composite(
            description="The same, and short thinking where the answer is right",
            parts={
                "outcome": Part(grader="em_tolerant", weight=1.0),
                "tool_choice": Part(grader="tool_choice", weight=0.2, optional=True),
                "steps": Part(grader="tool_steps", weight=0.1),
                "brevity": Part(grader="short_thinking", weight=0.2),
            },
        ),
    }

"""Settings of the comparison of two models on users' runs as they end; section ``shadow``, ``FATHOM_SHADOW_*``."""

from __future__ import annotations

from pydantic import Field

from fathom.core.config import Settings
from fathom.operations.shadow.gate import Gate
from fathom.operations.shadow.mirror import JUDGE, Experiment, Side


class Config(Settings):
    """Sides, share, bounds and gate; with the share of 0, which is the default, nothing is mirrored."""

    candidate: str = ""
    """``MODEL`` or ``MODEL@VERSION`` that might be promoted."""
    baseline: str = ""
    """``MODEL`` or ``MODEL@VERSION`` that serves."""
    name: str = "live"
    """Name of the experiment; its results are kept under it."""
    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the users' runs that is mirrored; 0 turns it off."""
    seed: int = 0
    """Seed of that draw."""
    grader: str = JUDGE
    """Grader of the reward service, or ``judge``."""
    margin: float = Field(default=0.0, ge=0)
    """Largest difference of grades that counts as even."""
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """Win rate above which the whole interval must lie to promote, and below which to reject."""
    least: int = Field(default=30, ge=1)
    """Number of decided questions at the first look; each further look comes at twice as many."""
    most: int = Field(default=1_000, ge=1)
    """Number of compared questions after which it ends without a decision."""
    in_flight: int = Field(default=2, ge=1, le=64)
    """Questions that are played at once."""
    waiting: int = Field(default=16, ge=1)
    """Questions that wait for that; of more that come meanwhile, none is mirrored."""

    stays: bool = False
    """Keep running once it has ended, for whoever reads its metrics; a pod that ended would be started again."""

    @property
    def experiment(self) -> Experiment:
        """Return what is compared; raise ``InvalidField`` for a side that is no model."""
        sides = Side.parse(self.candidate, "candidate"), Side.parse(self.baseline, "baseline")
        return Experiment(self.name, *sides, self.grader, self.margin)

    @property
    def gate(self) -> Gate:
        """Return the rule of promotion."""
        return Gate(self.threshold, self.least)

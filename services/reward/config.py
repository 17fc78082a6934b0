"""Settings of reward; section ``reward``, ``FATHOM_REWARD_*``."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings
from services.reward.process.settings import ProcessSettings


class Config(Settings):
    """Limits of a request."""

    max_items: int = Field(default=4096, ge=1, le=4096)
    """Items of one Score request."""
    process: ProcessSettings = ProcessSettings()
    """The implicit process reward model."""

"""A worker whose second rank dies in the middle of a step. It has no learner, so that a rank of it starts soon."""

from __future__ import annotations

import os
from typing import Any

from torch import distributed


class DiesOnUpdate:
    def __init__(self, config: Any) -> None:
        """Take the settings as every worker does; there is nothing to set."""

    def update_policy(self, data: Any) -> dict[str, float]:
        if distributed.get_rank() == 1:
            os._exit(1)
        return {}

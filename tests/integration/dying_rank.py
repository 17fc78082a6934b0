"""Workers of which a rank dies in the middle of a step."""

from __future__ import annotations

import os
import signal
from typing import Any

from torch import distributed

from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners.workers import ActorWorker

MARK, FATAL_UPDATE = "killed", 3


class DiesOnUpdate:
    """No learner, so that a rank of it starts soon."""

    def __init__(self, config: Any) -> None:
        """Take the settings as every worker does; there is nothing to set."""

    def update_policy(self, data: Any) -> dict[str, float]:
        if distributed.get_rank() == 1:
            os._exit(1)
        return {}


class ActorThatDiesOnce(ActorWorker):
    """The policy's learner, whose second rank is killed in its third update, once in a training."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.mark, self.updates = config.trainer.output / MARK, 0

    def update_policy(self, data: DataProto) -> dict[str, float]:
        self.updates += 1
        if distributed.get_rank() == 1 and self.updates == FATAL_UPDATE and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update_policy(data)

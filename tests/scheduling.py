"""Hand files of tests out to the workers of ``make test``."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class BothEnds(LoadFileScheduling):
    """Hand whole files out in their order to one half of the workers, and from the end to the other.

    Tests of real processes come first and wait much of their time, others only compute and come last: side by side
    they keep the processors busy, and fewer stacks run at once.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        nodes = self.nodes
        if nodes.index(node) >= (len(nodes) + 1) // 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

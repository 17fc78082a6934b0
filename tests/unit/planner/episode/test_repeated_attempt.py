"""An attempt at a run repeats the requests of the one before it, whose worker was lost, and may ask otherwise."""

from __future__ import annotations

from fathom.core.errors import Conflict
from fathom.domain.chat.messages import Completion
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, StopReason
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Echo, Script, echo, finish, research, task


class Remembering(Script):
    """A policy that has answered another request under some keys."""

    def __init__(self, taken: set[str], *lines: str) -> None:
        super().__init__(*lines)
        self.taken = taken
        self.request_ids: list[str] = []

    async def generate(self, request_id: str, *rest: object) -> Completion:
        self.request_ids.append(request_id)
        if request_id in self.taken:
            raise Conflict(f"request_id {request_id!r} was used for another request")
        return await super().generate(request_id, *rest)  # type: ignore[arg-type]


async def test_a_round_that_is_asked_otherwise_than_before_has_a_key_of_its_own() -> None:
    """A prompt can change between two attempts: midnight has passed, or the data's summary can be had again."""
    about = task()
    policy = Remembering({f"{about.run_id}-0"}, echo("a"), finish("Done."))
    episode = Episode(about, research().opening(about))
    resources = EpisodeResources(Registry([Echo(), Finish()]))
    outcome = await AgentLoop(episode, research(), policy, resources, RecordingObserver()).run()
    own = research().prompt_hash(about)[:8]
    assert outcome.stop is StopReason.FINISHED
    assert policy.request_ids == [f"{about.run_id}-0", f"{about.run_id}-0-{own}", f"{about.run_id}-1"]

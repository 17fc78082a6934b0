"""Production context window: measures every request and compacts it when it is too long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.planner.model.compaction import Compaction, StepPolicy, WindowSettings, result_id
from fathom.services.planner.model.episode import Episode, Step, Task
from fathom.services.planner.model.view import View
from fathom.services.planner.window.blocks import Layout, make_layout
from fathom.services.planner.window.meter import Meter, TokenCache, Tokens
from fathom.services.planner.window.metrics import WindowMetrics
from fathom.services.planner.window.plans import Cut, CutPlanner
from fathom.services.planner.window.summariser import Summariser, Summary


class CompactingWindow:
    """Window of one episode; its views depend on the episode only."""

    def __init__(
        self,
        settings: WindowSettings,
        tokens: Tokens,
        summariser: Summariser,
        model: str,
        metrics: WindowMetrics,
        counted: TokenCache | None = None,
        model_window: int = 0,
    ) -> None:
        """Create the window; ``model_window`` is the model's own in tokens, 0 asks policy for it."""
        self._settings, self._tokens, self._model, self._metrics = settings, tokens, model, metrics
        self._summariser = summariser
        self._counted, self._model_window = counted, model_window
        self._fitted: WindowSettings | None = None
        self._longest, self._is_unmeasured = 0, False

    # Only for who measures: a trainer's episode with a protocol of tags does not.
    @cached_property
    def _meter(self) -> Meter:
        return Meter(self._tokens, self._model, self._counted)

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        """Return the next request; below the trigger it is the current view with unchanged token ids."""
        if not tools and episode.task.is_rollout:
            # A protocol without tools has no pairs of calls and results to cut between, and the engine counts what it
            # reads: a trainer's episode does not wait for the same count twice.
            self._is_unmeasured = True
            return View((*episode.visible, *new), episode.token_ids, episode.covered)
        # Views are functions of the recorded steps, so a resumed run gets the same ones.
        started = time.perf_counter()
        view = await self._view(episode, new, tools)
        self._metrics.measuring.observe(time.perf_counter() - started)
        self._metrics.context.observe(view.tokens)
        self._longest = max(self._longest, view.tokens)
        return view

    async def shrink(self, tokens: int) -> None:
        """Take a window of at most so many tokens from now on; 0 leaves it as it is."""
        self._fitted = (await self._fit_settings()).within(tokens)

    async def _view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        settings = await self._fit_settings()
        size = await self._meter.count_request(episode, new, tools)
        plain = View((*episode.visible, *new), episode.token_ids, episode.covered, tokens=size)
        # A protocol without tools has no pairs of calls and results to cut between.
        if settings.policy is StepPolicy.OFF or not tools or size < settings.trigger_tokens:
            return plain
        return await self._compact(episode, new, tools, settings, plain)

    async def _compact(
        self,
        episode: Episode,
        new: Sequence[Message],
        tools: Sequence[ToolSpec],
        settings: WindowSettings,
        plain: View,
    ) -> View:
        """Return the least lossy cut that reaches the target, or ``plain`` when no cut makes it shorter."""
        messages = (*episode.messages, *new)
        plans = CutPlanner(make_layout(episode, new), episode, new, settings)
        size, cut = await self._choose(plans, messages, tools, settings)
        found = Summary()
        if cut.gone:
            found = await self._summariser.summarise(episode, cut.gone)
        if found.text:
            written = plans.rewrite(cut, found.text)
            longer = await self._measure(written, messages, tools)
            # A summary is welcome as long as the request stays below the trigger; otherwise the extract, which is
            # shorter, is kept.
            if longer < settings.trigger_tokens:
                size, cut = longer, written
            else:
                found = replace(found, text="")
        # Notes may be longer than what they replace.
        if size >= plain.tokens:
            return plain
        compaction = Compaction(
            policy=settings.policy,
            shown=cut.layout.messages,
            tokens_before=plain.tokens,
            tokens_after=size,
            dropped=list_dropped(episode, cut.layout),
            usage=found.usage,
            written=bool(found.text),
            failures=found.failures,
            numbers_left_out=cut.left_out,
            window_tokens=settings.tokens,
        )
        self._metrics.compactions.labels(settings.policy.value).inc()
        self._metrics.saved.labels(settings.policy.value).inc(plain.tokens - size)
        # No ids: what was cut out cannot be removed from them, so the request is rendered anew.
        return View(tuple(item.text(messages) for item in compaction.shown), (), 0, compaction, size)

    async def _choose(
        self, plans: CutPlanner, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: WindowSettings
    ) -> tuple[int, Cut]:
        """Return the first cut within the target, else the first lossless one below the trigger, else the shortest."""
        tried: list[tuple[int, Cut]] = []
        for cut in choose_cuts(plans, settings.policy):
            below = next((one for one in tried if one[0] < settings.trigger_tokens), None)
            # Missing the target by some tokens costs an early compaction; losing content cannot be undone.
            if cut.lossy and below is not None:
                return below
            size = await self._measure(cut, messages, tools)
            if size <= settings.target_tokens:
                return size, cut
            tried.append((size, cut))
        below = next((one for one in tried if one[0] < settings.trigger_tokens), None)
        return below or min(tried, key=lambda one: one[0])

    async def _measure(self, cut: Cut, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        return await self._meter.count_messages([item.text(messages) for item in cut.layout.messages], tools)

    async def room(self) -> int:
        """Return the effective window in tokens: the setting, or the model's own when that is smaller."""
        return (await self._fit_settings()).tokens

    async def _fit_settings(self) -> WindowSettings:
        """Return the settings limited to the model's own window, which is queried once."""
        if self._fitted is None:
            window = self._model_window or await self._tokens.window(self._model)
            self._fitted = self._settings.within(window)
        return self._fitted

    def close(self, steps: Sequence[Step] = ()) -> None:
        """Record the size of the episode's longest request; of requests that were not measured, as ``steps`` say."""
        if self._is_unmeasured:
            for step in steps:
                self._metrics.context.observe(step.context_tokens)
                self._longest = max(self._longest, step.context_tokens)
        if self._longest:
            self._metrics.longest.observe(self._longest)


@dataclass(frozen=True)
class WindowFactory:
    """Factory of windows with the state that all episodes of a planner share."""

    settings: WindowSettings
    tokens: Tokens
    summariser: Summariser
    metrics: WindowMetrics
    counted: TokenCache = field(default_factory=TokenCache)

    def of(self, task: Task) -> CompactingWindow:
        """Return the window of one episode."""
        return CompactingWindow(
            task.window or self.settings,
            self.tokens,
            self.summariser,
            task.model,
            self.metrics,
            self.counted,
            task.model_window,
        )


def choose_cuts(plans: CutPlanner, policy: StepPolicy) -> Iterator[Cut]:
    """Yield the cuts that a policy allows, the least lossy first."""
    if policy is StepPolicy.DELETE:
        yield from plans.plan_deletions()
        return
    if policy is StepPolicy.HYBRID:
        # Only the first deletion: it removes redundant steps and reduces old results, but no step that found something.
        yield from islice(plans.plan_deletions(), 1)
    yield from plans.plan_summaries()


def list_dropped(episode: Episode, shown: Layout) -> tuple[str, ...]:
    """Return the ids of results that a view does not show in full, oldest first."""
    full = {item.id for block in shown.blocks for item in block.given if item.shown.message is None}
    ids = (result_id(step.index, position) for step in episode.steps for position in range(len(step.results)))
    return tuple(id for id in ids if id not in full)

"""The window of production: measures every request, and compacts it when it has grown too long (rows M04, X06)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fathom.protocol.messages import Message, ToolSpec
from services.planner.model import Episode
from services.planner.window.meter import Meter, Tokens
from services.planner.window.metrics import WindowMetrics
from services.planner.window.record import StepPolicy, WindowSettings
from services.planner.window.view import View


class Stepwise:
    """Window of one episode. Its decisions are a function of the episode, so a resumed run comes to the same view."""

    def __init__(self, settings: WindowSettings, tokens: Tokens, model: str, metrics: WindowMetrics) -> None:
        self._settings, self._tokens, self._model, self._metrics = settings, tokens, model, metrics
        self._meter = Meter(tokens, model)
        self._fitted: WindowSettings | None = None
        self._longest = 0

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        """The next request. Below the trigger it is all that is shown so far, and the ids of it as they are."""
        started = time.perf_counter()
        view = await self._view(episode, new, tools)
        self._metrics.measuring.observe(time.perf_counter() - started)
        self._metrics.context.observe(view.tokens)
        self._longest = max(self._longest, view.tokens)
        return view

    async def _view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        settings = await self._settings_of_model()
        size = await self._meter.request(episode, new, tools)
        plain = View((*episode.visible, *new), episode.token_ids, episode.covered, tokens=size)
        # A protocol without tools has no pairs of calls and results to cut between.
        if settings.policy is StepPolicy.OFF or not tools or size < settings.trigger_tokens:
            return plain
        return plain

    async def _settings_of_model(self) -> WindowSettings:
        """The settings within the model's own window, which is asked for once."""
        if self._fitted is None:
            self._fitted = self._settings.within(await self._tokens.window(self._model))
        return self._fitted

    def close(self) -> None:
        """Tells the metrics how long the episode's longest request was."""
        if self._longest:
            self._metrics.longest.observe(self._longest)

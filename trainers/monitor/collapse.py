"""Early detection of training collapse: named signals, each with bounds and a patience.

A metric that is not finite ends a run at once. The signals are the known failure modes of published runs: entropy that
vanishes or explodes, a policy far from its reference, shrinking responses, invalid actions, and reward that falls from
its best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fathom.core.errors import FathomError
from fathom.trainers.config.sections import CollapseConfig

Metrics = Mapping[str, float]
ENTROPY, LENGTH, INVALID = (
    ("actor/entropy", "actor/entropy_loss"),
    ("response_length/mean",),
    ("rollout/invalid_action_ratio",),
)
KL = ("actor/reward_kl_penalty", "actor/kl_loss", "actor/ppo_kl")
REWARD = ("critic/score/mean", "critic/rewards/mean")


class TrainingCollapsed(FathomError):
    """A collapse signal persisted; the last good checkpoint is kept and its version stays in service."""

    code, reason = "ABORTED", "CONFLICT"

    def __init__(self, step: int, signal: str, detail: str, last_good: int) -> None:
        super().__init__(
            f"step {step}: {signal} {detail}; the last good step is {last_good}",
            metadata={"signal": signal, "step": str(step), "last_good": str(last_good)},
        )
        self.step, self.signal, self.last_good = step, signal, last_good


@dataclass(frozen=True)
class Signal:
    """A metric series and the bounds outside of which it is suspicious.

    ``metrics`` are alternative names, of which the first present is used. ``floor`` and ``ceiling`` bound the mean over
    the window, ``share_of_start`` its ratio to the first window, ``share_of_best`` its ratio to the best window so far.
    With ``only_after_good`` the bounds apply only once the series has been within them, because an untrained model may
    start outside. With ``while_rising`` the series is suspicious only while that other series is above its first
    window.
    """

    name: str
    metrics: tuple[str, ...]
    floor: float | None = None
    ceiling: float | None = None
    share_of_start: float | None = None
    share_of_best: float | None = None
    only_after_good: bool = False
    while_rising: tuple[str, ...] = ()

    def problem(self, means: Sequence[float]) -> str:
        """Describe the bound that the last window mean violates; "" when there is none."""
        last, first, best = means[-1], means[0], max(means)
        found = ""
        if self.floor is not None and last < self.floor:
            found = f"is {last:.4g}, below {self.floor:g}"
        elif self.ceiling is not None and last > self.ceiling:
            found = f"is {last:.4g}, above {self.ceiling:g}"
        elif self.share_of_start is not None and first > 0 and last < self.share_of_start * first:
            found = f"fell to {last:.4g} from {first:.4g} at the start"
        elif self.share_of_best is not None and best > 0 and last < self.share_of_best * best:
            found = f"fell to {last:.4g} from {best:.4g} at its best"
        if found and self.only_after_good:
            within = [self.floor is None or mean >= self.floor for mean in means]
            within = [
                ok and (self.ceiling is None or mean <= self.ceiling) for ok, mean in zip(within, means, strict=True)
            ]
            return found if any(within) else ""
        return found


def signals(config: CollapseConfig) -> tuple[Signal, ...]:
    """Return the signals of every training; a signal whose bounds are all None in the settings is left out."""
    found = [
        Signal("entropy", ENTROPY, floor=config.entropy_floor, ceiling=config.entropy_ceiling, only_after_good=True),
        Signal("kl", KL, ceiling=config.kl_ceiling),
        Signal("length", LENGTH, share_of_start=config.length_share),
        Signal("invalid actions", INVALID, ceiling=config.invalid_ceiling, only_after_good=True),
        Signal("reward", REWARD, share_of_best=config.reward_share),
    ]
    return tuple(one for one in found if (one.floor, one.ceiling, one.share_of_start, one.share_of_best) != (None,) * 4)


@dataclass
class CollapseDetector:
    """Checks the metrics of every step. ``last_good`` is the last step without a suspicious signal."""

    config: CollapseConfig
    more: tuple[Signal, ...] = ()
    """Additional signals of the algorithm."""
    last_good: int = 0
    suspicions: dict[str, str] = field(default_factory=dict)
    """Current problem by signal name."""
    _series: dict[str, list[float]] = field(default_factory=dict)
    _means: dict[str, list[float]] = field(default_factory=dict)
    _streak: dict[str, int] = field(default_factory=dict)

    def __call__(self, step: int, metrics: Metrics) -> bool:
        """Return whether no signal is suspicious, so that the state is worth keeping.

        Raises ``TrainingCollapsed`` for a metric that is not finite, and when a signal has been suspicious for
        ``patience`` consecutive steps.
        """
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise TrainingCollapsed(step, name, f"is {value}", self.last_good)
        # After the check above: NaN ends a training also where the bounds are switched off.
        if not self.config.enable:
            self.last_good = step
            return True
        self.suspicions = {}
        for signal in (*signals(self.config), *self.more):
            self._hear(step, signal, metrics)
        if not self.suspicions:
            self.last_good = step
        return not self.suspicions

    def _hear(self, step: int, signal: Signal, metrics: Metrics) -> None:
        means = self._window_means(signal.name, signal.metrics, metrics)
        other = self._window_means(f"{signal.name}, while", signal.while_rising, metrics)
        if not means:
            return
        problem = signal.problem(means)
        # A metric that falls together with the reward is a bad policy; falling while it rises is the sign of a hack.
        if signal.while_rising and not (other and other[-1] > other[0]):
            problem = ""
        # Consecutive steps: a single noisy window must not end hours of training.
        self._streak[signal.name] = self._streak.get(signal.name, 0) + 1 if problem else 0
        if problem:
            self.suspicions[signal.name] = problem
        if self._streak[signal.name] >= self.config.patience:
            raise TrainingCollapsed(step, signal.name, problem, self.last_good)

    def _window_means(self, key: str, names: tuple[str, ...], metrics: Metrics) -> list[float]:
        """Add this step's value and return all window means so far.

        Empty before the first full window or without a value.
        """
        value = next((metrics[name] for name in names if name in metrics), None)
        if value is None:
            return []
        series = self._series.setdefault(key, [])
        series.append(value)
        means = self._means.setdefault(key, [])
        # Before the first full window a mean would be of one or two steps, and every later share is relative to the
        # first.
        if len(series) >= self.config.window:
            means.append(sum(series[-self.config.window :]) / self.config.window)
        return means

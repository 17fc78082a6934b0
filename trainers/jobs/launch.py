"""A training run from settings to report: assembles prompts, rollouts, learners, checkpoints and loggers.

A run occupies one thread and can be stopped from another (``Interruption``): it finishes the current step, writes a
checkpoint, and writes the report.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fathom.clients import Clients, connect
from fathom.core.call import Lane
from fathom.core.errors import Cancelled, FathomError, InvalidField
from fathom.domain.training_report.about import FAILED, FINISHED, METRICS, RUNNING, STOPPED, About
from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.batch import DataProto
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.sections import DataConfig, RolloutConfig
from fathom.trainers.data.comparison import comparison_tasks, records, split, vocabulary
from fathom.trainers.data.mixtures.leaks import refuse_leaking_files
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.data.records import read_all
from fathom.trainers.interfaces import Metrics, RolloutSource
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.identity import claim_for, flatten
from fathom.trainers.jobs.registry import build_algorithm, find
from fathom.trainers.learners.models import load_model, load_tokenizer
from fathom.trainers.learners.ranks.groups import RankDied
from fathom.trainers.learners.stored_models import fetch_models
from fathom.trainers.monitor.collapse import CollapseDetector, TrainingCollapsed
from fathom.trainers.monitor.loggers import Logger, make_loggers
from fathom.trainers.monitor.progress import Progress
from fathom.trainers.monitor.store_mirror import StoreMirror, find_other, restore_folder
from fathom.trainers.ray_cluster import start_ray
from fathom.trainers.rollouts import PlannerRollouts
from fathom.trainers.rollouts.lease import Holder, Lease, acquire
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.publisher import Publisher
from fathom.trainers.rollouts.recording import Recording
from fathom.trainers.rollouts.replayed import ReplayedRollouts
from fathom.trainers.rollouts.source import count_ahead
from fathom.trainers.search_r1.generation_config import GenerationConfig
from fathom.trainers.search_r1.rollouts import SearchR1Rollouts
from fathom.trainers.search_r1.sampler import ModelSampler
from fathom.trainers.store_files import Sharing, StoreFolder, with_store
from fathom.transport.sealed_memory import default_folder
from fathom.transport.store import OUTAGE, ObjectStore, open_store

Row = Mapping[str, Any]
COMPARISON = "comparison"
GIB = 1 << 30
LOG = logging.getLogger(__name__)
Show = Callable[[int, int, Metrics], None]
"""Progress callback: receives the step, the total number of steps, and metrics."""


class Interruption:
    """Thread-safe request to stop a training after its current step."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def request(self) -> None:
        self._asked.set()

    @property
    def is_requested(self) -> bool:
        return self._asked.is_set()


class Interrupted(Cancelled):
    """The training was stopped on request, after a checkpoint; the same command resumes it."""


@dataclass(frozen=True)
class Place:
    """URLs of the services by name, and of the object store."""

    services: Mapping[str, str]
    store: str
    reports: str = ""
    """URL of the store for curves and samples when ``store`` is empty, as for a training from files."""


@dataclass(frozen=True)
class Outcome:
    """Result of a training; ``metrics`` are those of the last step."""

    steps: int
    metrics: Metrics
    report: Path

    def summary(self) -> str:
        """Format the result as one line."""
        shown = ("critic/score/mean", "acc", "val/test_score", "response_length/mean", "actor/entropy", "val/loss")
        found = [f"{name} {self.metrics[name]:.3f}" for name in shown if name in self.metrics]
        if not self.metrics:
            return f"ended before, at step {self.steps}: nothing to do; {self.report}"
        return f"{self.steps} steps; {', '.join(found)}; {self.report}"


@dataclass
class Run:
    """One training run."""

    name: str
    config: TrainConfig
    place: Place
    show: Show
    interruption: Interruption
    notes: list[str] = field(default_factory=list)
    last: Metrics = field(default_factory=dict)
    step: int = 0
    restarts: int = 0
    """Times that the learners were built anew."""
    _trainer: Any = None
    _loggers: Sequence[Logger] = ()
    _progress: Any = None

    def train(self) -> Outcome:
        """Train to completion; the report is written however the run ends.

        Raises typed errors: ``ConfigError`` or ``InvalidField`` for settings, ``TrainingCollapsed`` or
        ``TrainingDiverged``, ``Interrupted``, and what the services raise.
        """
        config, output = self.config, self.config.trainer.output
        output.mkdir(parents=True, exist_ok=True)
        # Before anything can fail: what was asked for is part of every report.
        (output / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
        self._restore_curves()
        settings = config.model_dump(mode="json")
        self._loggers = make_loggers(config.trainer.loggers, output, flatten(settings))
        about = About(output.name, self.name, config.model.name, settings=flatten(settings))
        self._progress = Progress(output, about, config.trainer.samples)
        try:
            while not self._fit():
                self.restarts += 1
        # Loggers first: the report reads the file that they may still hold open.
        finally:
            for logger in self._loggers:
                logger.close()
            report = self._progress.write_page()
        return Outcome(self.step or self._trainer.total_steps, self.last, report)

    def _fit(self) -> bool:
        """Train to completion; return False when a learner's rank has died and all may be built anew."""
        try:
            with ExitStack() as stack:
                # Entered first, so that it is told of errors of the assembly too.
                stack.push(self._end_report)
                self._trainer = self._assemble(stack)
                self._trainer.fit()
        except RankDied as error:
            if not self._may_restart():
                raise
            self._warn(f"{error.message}. The learners are built anew and go on from the last checkpoint.")
            return False
        return True

    def _may_restart(self) -> bool:
        """Return whether learners that died may be built anew."""
        trainer = self.config.trainer
        # Other modes begin at a place of their own choice, not at this training's last checkpoint.
        return trainer.resume_mode == "auto" and self.restarts < trainer.learner_restarts

    def _restore_curves(self) -> None:
        """Download the curves of attempts on other disks, unless they are here or the training starts over."""
        trainer, url = self.config.trainer, self.place.store
        if url and trainer.resume_mode != "disable" and not (trainer.output / METRICS).exists():
            asyncio.run(with_store(url, partial(restore_folder, folder=trainer.output)))

    def _open_mirror(self, stack: ExitStack, loop: LoopThread) -> None:
        """Copy the report's data into the store from here on, if there is one."""
        url, output = self.place.store or self.place.reports, self.config.trainer.output
        if not url:
            return
        store = loop.call(open_store_in_loop(url))
        stack.callback(lambda: loop.call(store.close()))
        # Where checkpoints lie elsewhere, nobody has claimed the name in this store.
        if not self.place.store and self.config.trainer.resume_mode != "disable":
            try:
                if loop.call(find_other(store, self._progress.about)):
                    self.notes.append(f"The page shows another training named {output.name!r}: choose a trainer.output")
                    return
            except FathomError as error:
                self.notes.append(f"The page does not show this training: {error.message}")
                return
        self._progress.mirror = StoreMirror(store, loop.start, output)
        # Now, while the loop and the store are open.
        stack.push(self._end_report)

    def _end_report(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Note how the training ended; an exit callback, of which the first call counts."""
        if self._progress.about.state != RUNNING or (isinstance(error, RankDied) and self._may_restart()):
            return
        if isinstance(error, TrainingCollapsed):
            self.notes.append(f"Collapsed: {error.message}. The last good checkpoint is kept.")
        self._progress.set_notes(self.notes)
        if error is None:
            self._progress.end(FINISHED)
        else:
            self._progress.end(STOPPED if isinstance(error, Interrupted) else FAILED, str(error))

    def _assemble(self, stack: ExitStack) -> Any:
        """Build the trainer and its dependencies; everything to be closed is pushed on ``stack``."""
        config = self.config
        # Before anything is claimed or loaded: what was learnt from an evaluation cannot be told from what was not.
        refuse_leaking_files(config.data.train_files, config.data.held_files, config.data.prompt_key)
        loop = stack.enter_context(LoopThread())
        if find(self.name).from_files:
            url = self.place.store or config.trainer.output.resolve().as_uri()
            kept = loop.call(open_store_in_loop(url))
            stack.callback(lambda: loop.call(kept.close()))
            loop.call(claim_for(kept, self.name, config))
            self._open_mirror(stack, loop)
            checkpoints = open_checkpoints(config, kept, url, loop)
            return find(self.name).load()(fetch_models(config, self.place.store), self._on_step, checkpoints)
        clients, store = loop.call(open_services(self.place))
        stack.callback(lambda: loop.call(close_services(clients, store)))
        train, validation = read_prompts(config.data)
        config = self.config = fill_vocabulary(config, [*train, *validation])
        loop.call(claim_for(store, self.name, config))
        algorithm: Algorithm = build_algorithm(self.name, config)
        self.notes += algorithm.notes()
        train, validation = (loop.call(algorithm.prepare_prompts(rows, clients)) for rows in (train, validation))
        if assembly.runs_on_ray(config):
            stack.callback(start_ray(assembly.count_ranks(config, len(algorithm.roles()))))
        # Here only the tokenizer is needed: each learner fetches its model where it runs.
        tokenizer = load_tokenizer(fetch_models(config, self.place.store, weights=False).model)
        context = TrainingContext(
            self._source(algorithm, stack, loop, clients, store, tokenizer),
            Prompts(train, config.data.shuffle, config.data.seed),
            Prompts(validation, shuffle=False) if validation else None,
            open_checkpoints(config, store, self.place.store, loop),
            self._on_step,
            lambda step, batch: self._keep_sample(step, batch, tokenizer),
            self._warn,
            CollapseDetector(config.collapse, algorithm.collapse_signals()),
        )
        # After the claim and the lease: a training that is refused must not replace the curves of the one that is not.
        self._open_mirror(stack, loop)
        trainer = assembly.build_trainer(algorithm, tokenizer, context, store_url=self.place.store)
        stack.callback(trainer.close)  # a job's Ray cluster, or one that others use, outlives the training
        return trainer

    def _hold_name(self, stack: ExitStack, loop: LoopThread, store: ObjectStore) -> Lease:
        """Acquire and renew the lease of the model's name until the run ends; raises ``Conflict`` naming the holder."""
        holder = Holder.of_this_process(self.config.trainer.output.name)

        async def hold() -> Lease:
            lease = await acquire(store, self.config.model.name, holder)
            lease.start()
            return lease

        lease = loop.call(hold())
        stack.callback(lambda: loop.call(lease.release()))
        return lease

    def _source(
        self,
        algorithm: Algorithm,
        stack: ExitStack,
        loop: LoopThread,
        clients: Clients,
        store: ObjectStore,
        tokenizer: Any,
    ) -> RolloutSource:
        config = self.config
        rollout, folder = config.rollout, config.trainer.output / "rollouts"
        if rollout.source == "in_process":
            # A copy of its own: the learner's is wrapped, sharded or on other ranks, and changes within a step. Without
            # adapters: learners publish weights into which theirs are merged, and untrained ones change no logit.
            own = fetch_models(config, self.place.store).model.model_copy(update={"lora_rank": 0})
            sampler = ModelSampler(load_model(own, config.trainer.seed), tokenizer)
            exchange = StoreFolder(self.place.store, f"exchange/{config.trainer.output.name}")
            return SearchR1Rollouts(sampler, tokenizer, GenerationConfig.from_config(config), exchange)
        pad = int(tokenizer.pad_token_id or 0)
        if rollout.replay is not None:
            recording = Recording(folder_store(rollout.replay), "batches")
            return ReplayedRollouts(
                recording,
                loop,
                count_ahead(rollout),
                pad,
                config.reward.manager == "service",
            )
        publisher = Publisher(
            clients,
            store,
            self.place.store,
            config.model.name,
            rollout.publish_lanes,
            rollout.publish_timeout_s,
            lease=self._hold_name(stack, loop, store),
            sharing=choose_sharing(rollout),
            warn=LOG.info,
        )
        return PlannerRollouts(
            config,
            clients,
            publisher,
            loop,
            Recording(folder_store(folder), "batches") if rollout.record else None,
            pad,
            algorithm.grader(clients),
        )

    def _warn(self, text: str) -> None:
        """Log a warning immediately and add it to the report."""
        LOG.warning(text)
        self.notes.append(text)

    def _keep_sample(self, step: int, batch: DataProto, tokenizer: Any) -> None:
        self._progress.keep_sample(step, self._trainer.total_steps, batch, tokenizer)

    def _on_step(self, step: int, metrics: Metrics) -> None:
        self.step, self.last = step, metrics
        for logger in self._loggers:
            logger.log(step, metrics)
        self._progress.set_notes(self.notes)
        self._progress.log_step(step, self._trainer.total_steps)
        self.show(step, self._trainer.total_steps, metrics)
        if self.interruption.is_requested:
            # After the step's weights were published: the checkpoint and the served version agree.
            self._trainer.save_checkpoint()
            raise Interrupted(f"stopped at step {step}; its checkpoint is written, the same command goes on from there")


def read_prompts(data: DataConfig) -> tuple[list[Row], list[Row]]:
    """Return training and validation prompts from the files, or those of a small built-in task without files."""
    if data.train_files:
        train, validation = (read_all(files, data.prompt_key) for files in (data.train_files, data.val_files))
        return [record.row() for record in train], [record.row() for record in validation]
    some, others = split(comparison_tasks(), 0.2, data.seed)
    return list(records(some, COMPARISON)), list(records(others, COMPARISON))


def choose_sharing(rollout: RolloutConfig) -> Sharing | None:
    """Return how new weights are shared with a policy on the learners' machine; None for the store alone."""
    if rollout.weights_transport == "store":
        return None
    return Sharing(
        rollout.shared_memory_dir or default_folder(),
        int(rollout.shared_memory_gb * GIB),
        is_required=rollout.weights_transport == "shared_memory",
        # What users are served by has to outlive this machine from its first answer on; a training starts again from
        # its checkpoint and publishes anew.
        is_ahead=rollout.publish_lanes == ("training",),
    )


def open_checkpoints(config: TrainConfig, store: ObjectStore, url: str, loop: LoopThread) -> StoreCheckpoints:
    """Return the checkpoints, in the store at ``url``, of the training named by its output folder."""
    return StoreCheckpoints(store, url, config.trainer.output.name, config.trainer.keep_checkpoints, loop.call)


async def open_store_in_loop(url: str) -> ObjectStore:
    """Open the store inside the event loop that uses it, for calls that wait out an outage of a minute."""
    return open_store(url, retries=OUTAGE)


async def open_services(place: Place) -> tuple[Clients, ObjectStore]:
    """Open clients in the training lane, and the store, inside the event loop that uses them."""
    return connect(place.services, lane=Lane.TRAINING), await open_store_in_loop(place.store)


async def close_services(clients: Clients, store: ObjectStore) -> None:
    await clients.close()
    await store.close()


def folder_store(folder: Path) -> ObjectStore:
    """Open a folder as a store; raises ``InvalidField("rollout.replay")`` when that is impossible."""
    return open_store(folder.resolve().as_uri())


def fill_vocabulary(config: TrainConfig, rows: Sequence[Row]) -> TrainConfig:
    """Give a tiny model without a vocabulary the words of the built-in task.

    Raises ``InvalidField("model.vocabulary")`` when the prompts are from elsewhere.
    """
    if config.model.path != "tiny" or config.model.vocabulary:
        return config
    if any(row["data_source"] != COMPARISON for row in rows):
        raise InvalidField("model.vocabulary", "is empty; a tiny model needs the words of its prompts")
    model = config.model.model_copy(update={"vocabulary": tuple(vocabulary(comparison_tasks()))})
    return config.model_copy(update={"model": model})

"""Data of an episode: messages, completions, calls and material. Plain dataclasses, append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from operator import add, attrgetter, methodcaller
from typing import Any

from fathom.core.ids import content_hash
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolCall, Usage
from fathom.services.planner.model.compaction import Compaction, ViewMessage, WindowSettings
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.model.recording import RecordingChoice
from fathom.services.planner.model.slots import Reading, ReadText
from fathom.services.planner.model.stages import StageNote


class StopReason(StrEnum):
    """Reason why an episode ended."""

    FINISHED = "finished"
    BUDGET = "budget"
    STOPPED = "stopped"
    FAILED = "failed"
    UNFINISHED = "unfinished"


class Shortfall(StrEnum):
    """Reason why the model did not finish; the planner then lists what was found."""

    EMPTY = "empty"
    FILTERED = "filtered"
    REPEATING = "repeating"
    IDLE = "idle"
    BUDGET = "budget"
    CONTEXT = "context"
    TIME = "time"


class ToolStatus(StrEnum):
    """Status of a tool call, as shown to the model."""

    OK = "ok"
    EMPTY = "empty"
    FAILED = "failed"
    INVALID = "invalid"


class Subject(StrEnum):
    """Subject of a question that nothing in the data or the documents is about."""

    DATA = "data"
    PRODUCT = "product"
    OTHER = ""


class MaterialKind(StrEnum):
    """Kind of material."""

    PASSAGE = "passage"
    SHEET = "sheet"
    CODE = "code"
    MISSING = "missing"


@dataclass(frozen=True)
class Material:
    """A source that the answer may cite as ``[number]``. The type of ``item`` depends on the tool that produced it."""

    number: int
    kind: MaterialKind
    item: Any
    variable: str = ""
    computed_by: int = 0
    """Number of the cell that computed a sheet; 0 for a fetched one."""
    computed_from: tuple[str, ...] = ()
    """Variables of the sheets from which it was computed."""


@dataclass(frozen=True)
class ToolResult:
    """Result of a call. ``content`` is returned to the model; ``is_cached`` says that an equal call had it before."""

    call: ToolCall
    intent: str
    content: str
    status: ToolStatus
    duration_ms: int = 0
    material: tuple[Material, ...] = ()
    is_cached: bool = False


@dataclass(frozen=True)
class Step:
    """One round: new messages, the completion, the tool results."""

    index: int
    new_messages: tuple[Message, ...]
    completion: Completion
    results: tuple[ToolResult, ...] = ()
    compaction: Compaction | None = None
    """Compaction of the view before this step was sampled."""
    context_tokens: int = 0
    """Tokens of the request as measured before sending; 0 when not measured."""
    stage: StageNote | None = None
    """Record of the workflow stage, for a workflow's step."""


@dataclass(frozen=True)
class Limits:
    """Limits of one episode.

    ``deadline`` is in seconds of this process's monotonic clock, ``max_seconds`` the time from the start of the episode
    to it, ``max_cost`` money in the currency of the prices; 0 sets no limit.
    """

    max_rounds: int
    max_tokens: int
    deadline: float
    max_seconds: float = 0.0
    max_cost: float = 0.0
    since: int = 0
    """Number of steps that do not count, recorded before the run was resumed with these limits."""


@dataclass(frozen=True)
class Task:
    """Question of an episode, and how it is sampled."""

    run_id: str
    question: str
    model: str
    sampling: Sampling
    limits: Limits
    policy_version: int = 0
    depth: int = 0
    """Number of runs above this one; see ``delegation``."""
    history: tuple[Message, ...] = ()
    as_of: Any = None
    """Point in time as of which data are read, in the tools' own type; None reads everything."""
    window: WindowSettings | None = None
    """Window settings of its requests; None uses the planner's."""
    model_window: int = 0
    """The model's own window in tokens; 0 for one that is not known, of which policy is asked."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Prompt ids by stage; empty uses the planner's choice."""
    date: str = ""
    """ISO date on which the question is asked; "" when unknown."""
    sheets: tuple[Any, ...] = ()
    """Tables in the Python session from the beginning, in the tools' own type."""
    given: tuple[Material, ...] = ()
    """Tables of earlier turns and of the caller, in the Python session from the beginning, numbered before the rest."""
    corpora: tuple[str, ...] = ()
    """Corpora that are searched; empty searches the planner's."""
    tools_off: frozenset[str] = frozenset()
    """Tools of sources that its user has switched off for this question."""
    sources_off: tuple[str, ...] = ()
    """Names of these sources, for its sub-runs."""
    data_summary: str = ""
    """Summary of the data there are, for the system prompt; "" for a task without the tools of the data."""
    tools: tuple[str, ...] = ()
    """Allowed tools; empty allows all."""
    subject: Subject = Subject.OTHER
    """Subject of the question, where that is the data that there are, or the program."""
    chart: str = ""
    """Kind of chart that the question asks for; "" for none."""
    is_rollout: bool = False
    """True for a trainer's episode, whose dialogue stays as strict as trainers know it; see ``interpretation``."""
    is_thinking: bool = False
    """True for a model that thinks by itself, which is not offered the tool ``think``."""
    recording: RecordingChoice | None = None
    """Recording of its calls; None makes them."""
    instructions: str = ""
    """Wishes of the calling application for the answer; "" for nothing."""
    asked: str = ""
    """The user's own words, of which ``question`` is the whole form; "" where they are the same."""
    guess: str = ""
    """Words of the user's of which ``question`` is only the likeliest meaning; "" where they are surely understood."""
    program_texts: tuple[str, ...] = ()
    """Questions whose last one, read behind the others, has the program that ``question`` puts into words; () reads the
    user's own words behind the conversation."""
    read: ReadText | None = None
    """The question as datafetch has read it for a follow-up; None reads it beside the first sampling."""
    memory: Memory = field(default_factory=Memory)
    """Part of its user's memory that it is given."""
    conversation_id: str = ""
    """Conversation of the run; "" for none."""
    follows: int | None = None
    """Turn of the conversation that the question follows, 0 for its beginning; None for the newest."""
    has_memory: bool = False
    """True offers the tools for earlier turns: whoever asks has some."""
    is_compared: bool = True
    """False leaves out the comparison of the answer with the question, as in training by default."""

    @property
    def summary_name(self) -> str:
        """Return the name under which a trajectory records the summary of the data, from its content."""
        return f"data.{content_hash([self.data_summary])[:12]}"


class FindingKind(StrEnum):
    """Kind of a finding in the answer, as in ``FindingKind`` of the API."""

    NUMBER = "number"
    TIME = "time"
    EVENT = "event"
    UNSUPPORTED = "unsupported"
    UNCITED = "uncited"
    UNRESOLVED = "unresolved"
    TYPED_TABLE = "typed_table"
    REPEATED = "repeated"
    FIGURE = "figure"
    SECTION = "section"
    UNCHECKED = "unchecked"
    LENGTH = "length"
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Finding:
    """A finding at one place of the answer, at character offsets ``start`` to ``end`` (exclusive)."""

    start: int
    end: int
    kind: FindingKind
    text: str
    detail: str
    cited: tuple[int, ...] = ()
    found_in: tuple[int, ...] = ()


@dataclass(frozen=True)
class Clarification:
    """A question to the user: the words that could not be resolved, and whole questions to choose from."""

    reference: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Markdown, its resolved and unresolved citations, the findings of the checks, and material created with it."""

    markdown: str
    cited: tuple[int, ...] = ()
    unresolved: tuple[int, ...] = ()
    model: str = ""
    findings: tuple[Finding, ...] = ()
    material: tuple[Material, ...] = ()
    reading: Reading | None = None
    """Reading of the question, with what the answer leaves open of it; None when nobody compared them."""
    clarification: Clarification | None = None
    """Set when the answer asks back."""


@dataclass(frozen=True)
class Outcome:
    """End of an episode. ``culprit`` names the failed service, if any.

    ``error_code`` is the code of a failure that a retry would repeat (``fathom.core.errors.NON_RETRYABLE``).
    """

    stop: StopReason
    answer: Answer | None = None
    error: str = ""
    culprit: str = ""
    error_code: str = ""
    shortfall: Shortfall | None = None
    """Reason why the model did not finish, when it did not."""
    is_house_failure: bool = False
    """True when a service was away, full or too late, so that another attempt may end otherwise."""


@dataclass
class Segment:
    """Token ids between two compactions; within it, each request starts with the ids of the previous one."""

    first_step: int = 0
    token_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def append(self, completion: Completion) -> None:
        """Add the rendered ids (mask 0) and the sampled ids (mask 1)."""
        rendered, sampled = completion.prompt_token_ids, completion.sampled_token_ids
        self.token_ids += [*rendered, *sampled]
        self.mask += [0] * len(rendered) + [1] * len(sampled)
        # Endpoints without token ids send none; the lengths must agree all the same.
        log_probs = completion.log_probs if completion.exact else (0.0,) * len(sampled)
        self.log_probs += [0.0] * len(rendered) + list(log_probs)


@dataclass
class Episode:
    """State of one episode; it grows by whole steps only, so that it can be rebuilt from them.

    ``messages`` are all messages, ``shown`` those that the model still sees. A compaction starts a new segment of token
    ids; every sampled id is in exactly one segment with mask 1.
    """

    task: Task
    opening: tuple[Message, ...]
    steps: list[Step] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    shown: list[ViewMessage] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=lambda: [Segment()])
    covered: int = 0
    """Number of shown messages that the last segment's ids cover."""

    def extend(self, seconds: float) -> None:
        """Move the deadline: the episode has waited for a service, which does not count."""
        limits = self.task.limits
        self.task = replace(self.task, limits=replace(limits, deadline=limits.deadline + seconds))

    def append(self, step: Step) -> None:
        """Add a finished step: its messages, and its token ids verbatim."""
        # Messages and token ids are only ever appended, in the order of the steps: a resumed or replayed run rebuilds
        # exactly this state from its record.
        completion, known = step.completion, len(self.messages)
        fresh = step.stage is not None and self._begins_stage(step.stage)
        self.steps.append(step)
        self.messages.extend(step.new_messages)
        new = list(map(ViewMessage, range(known, len(self.messages))))
        # What the model sees no longer begins with the ids of the request before, so these ids form a segment of their
        # own: a trainer must not condition on tokens that the model did not see.
        if step.compaction is not None or fresh:
            self.shown = new if step.compaction is None else list(step.compaction.shown)
            # A first step may be compacted, too: then there is no segment to close.
            self.segments = [*(part for part in self.segments if part.token_ids or step.index), Segment(step.index)]
            self.covered = 0
        else:
            self.shown += new
        self.shown.append(ViewMessage(len(self.messages)))
        # With what the endpoint wants back: a thinking model refuses its own calls without the thoughts behind them.
        self.messages.append(
            Message(Role.ASSISTANT, completion.text, completion.tool_calls, opaque_json=completion.opaque_json)
        )
        self.segments[-1].append(completion)
        # Ids of an inexact completion are incomplete: the next request is rendered from its messages.
        if completion.exact:
            self.covered = len(self.shown)

    def _begins_stage(self, stage: StageNote) -> bool:
        """Return whether a workflow stage begins with the next step: it has its own prompt and sees nothing earlier."""
        before = self.steps[-1].stage if self.steps else None
        return before is None or before.name != stage.name

    @property
    def visible(self) -> tuple[Message, ...]:
        """Return the messages that the model still sees."""
        return tuple(map(methodcaller("text", self.messages), self.shown))

    @property
    def token_ids(self) -> list[int]:
        """Return the ids of the last segment, which are those of the whole episode if nothing was compacted."""
        return self.segments[-1].token_ids

    @property
    def max_context_tokens(self) -> int:
        """Return the tokens of the longest request as counted by the engine, or else as measured before sending."""
        # Endpoints without usage report 0.
        return max([step.completion.usage.prompt_tokens or step.context_tokens for step in self.steps], default=0)

    @property
    def material(self) -> list[Material]:
        found = [item for step in self.steps for result in step.results for item in result.material]
        return [*self.task.given, *found]

    @property
    def exact(self) -> bool:
        """Return whether all token ids and log-probabilities come from the engine."""
        return all(map(attrgetter("completion.exact"), self.steps))

    @property
    def usage(self) -> Usage:
        return self.usage_since(0)

    def usage_since(self, index: int) -> Usage:
        """Return the token usage from step ``index`` on."""
        steps = self.steps[index:]
        used = list(map(attrgetter("completion.usage"), steps))
        # Summaries are written for the episode, so they count towards its budget.
        used += map(attrgetter("compaction.usage"), filter(attrgetter("compaction"), steps))
        return reduce(add, used) if used else Usage()

    @property
    def versions(self) -> tuple[int, int]:
        """Return the oldest and newest policy version that sampled; (0, 0) without steps."""
        if not self.steps:
            return 0, 0
        low = min(map(attrgetter("completion.version_min"), self.steps))
        return low, max(map(attrgetter("completion.version_max"), self.steps))

    def hash(self) -> str:
        """Return a hash over ids, mask and tool results, equal for bit-identical replays."""
        # Durations and times differ between two plays of the same steps and are left out.
        contents = [list(map(attrgetter("content"), step.results)) for step in self.steps]
        ids: list[int] = []
        mask: list[int] = []
        for part in self.segments:
            ids += part.token_ids
            mask += part.mask
        return content_hash([ids, mask, contents])


def rebuild_episode(task: Task, opening: tuple[Message, ...], steps: Sequence[Step]) -> Episode:
    """Return the episode after these steps."""
    episode = Episode(task, opening)
    for step in steps:
        episode.append(step)
    return episode

from fathom.api.common.v1 import common_pb2 as _common_pb2
from fathom.api.datafetch.v1 import datafetch_pb2 as _datafetch_pb2
from fathom.api.policy.v1 import policy_pb2 as _policy_pb2
from fathom.api.planner.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Effort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFORT_UNSPECIFIED: _ClassVar[Effort]
    EFFORT_QUICK: _ClassVar[Effort]
    EFFORT_STANDARD: _ClassVar[Effort]
    EFFORT_DEEP: _ClassVar[Effort]

class RecordingMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORDING_MODE_UNSPECIFIED: _ClassVar[RecordingMode]
    RECORDING_MODE_RECORD: _ClassVar[RecordingMode]
    RECORDING_MODE_REPLAY_STRICT: _ClassVar[RecordingMode]
    RECORDING_MODE_REPLAY_FALLBACK: _ClassVar[RecordingMode]

class AnswerForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_FORM_UNSPECIFIED: _ClassVar[AnswerForm]
    ANSWER_FORM_ANSWER: _ClassVar[AnswerForm]
    ANSWER_FORM_REPORT: _ClassVar[AnswerForm]

class Scene(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCENE_UNSPECIFIED: _ClassVar[Scene]
    SCENE_QUESTION_ANSWERING: _ClassVar[Scene]
    SCENE_DATA_QUERY: _ClassVar[Scene]
    SCENE_TABLE_QUERY: _ClassVar[Scene]
    SCENE_CUSTOMER_SERVICE: _ClassVar[Scene]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_DIRECT: _ClassVar[Mode]
    MODE_WORKFLOW: _ClassVar[Mode]
    MODE_RESEARCH: _ClassVar[Mode]
EFFORT_UNSPECIFIED: Effort
EFFORT_QUICK: Effort
EFFORT_STANDARD: Effort
EFFORT_DEEP: Effort
RECORDING_MODE_UNSPECIFIED: RecordingMode
RECORDING_MODE_RECORD: RecordingMode
RECORDING_MODE_REPLAY_STRICT: RecordingMode
RECORDING_MODE_REPLAY_FALLBACK: RecordingMode
ANSWER_FORM_UNSPECIFIED: AnswerForm
ANSWER_FORM_ANSWER: AnswerForm
ANSWER_FORM_REPORT: AnswerForm
SCENE_UNSPECIFIED: Scene
SCENE_QUESTION_ANSWERING: Scene
SCENE_DATA_QUERY: Scene
SCENE_TABLE_QUERY: Scene
SCENE_CUSTOMER_SERVICE: Scene
MODE_UNSPECIFIED: Mode
MODE_DIRECT: Mode
MODE_WORKFLOW: Mode
MODE_RESEARCH: Mode

class Budget(_message.Message):
    __slots__ = ("max_rounds", "max_tokens", "max_ms", "max_cost")
    MAX_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_FIELD_NUMBER: _ClassVar[int]
    max_rounds: int
    max_tokens: int
    max_ms: int
    max_cost: float
    def __init__(self, max_rounds: _Optional[int] = ..., max_tokens: _Optional[int] = ..., max_ms: _Optional[int] = ..., max_cost: _Optional[float] = ...) -> None: ...

class Recording(_message.Message):
    __slots__ = ("name", "mode")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: RecordingMode
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[RecordingMode, str]] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("request_id", "question", "conversation_id", "protocol", "model", "as_of", "budget", "sampling", "window", "prompts", "effort", "table_ids", "corpora", "history", "instructions", "recording", "consent", "parent_turn", "sources_off")
    class PromptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    CORPORA_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    RECORDING_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    PARENT_TURN_FIELD_NUMBER: _ClassVar[int]
    SOURCES_OFF_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    question: str
    conversation_id: str
    protocol: _trajectory_pb2.Protocol
    model: str
    as_of: _timestamp_pb2.Timestamp
    budget: Budget
    sampling: _policy_pb2.Sampling
    window: _trajectory_pb2.Window
    prompts: _containers.ScalarMap[str, str]
    effort: Effort
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    corpora: _containers.RepeatedScalarFieldContainer[str]
    history: _containers.RepeatedCompositeFieldContainer[_policy_pb2.Message]
    instructions: str
    recording: Recording
    consent: _trajectory_pb2.Consent
    parent_turn: int
    sources_off: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., question: _Optional[str] = ..., conversation_id: _Optional[str] = ..., protocol: _Optional[_Union[_trajectory_pb2.Protocol, str]] = ..., model: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., sampling: _Optional[_Union[_policy_pb2.Sampling, _Mapping]] = ..., window: _Optional[_Union[_trajectory_pb2.Window, _Mapping]] = ..., prompts: _Optional[_Mapping[str, str]] = ..., effort: _Optional[_Union[Effort, str]] = ..., table_ids: _Optional[_Iterable[str]] = ..., corpora: _Optional[_Iterable[str]] = ..., history: _Optional[_Iterable[_Union[_policy_pb2.Message, _Mapping]]] = ..., instructions: _Optional[str] = ..., recording: _Optional[_Union[Recording, _Mapping]] = ..., consent: _Optional[_Union[_trajectory_pb2.Consent, str]] = ..., parent_turn: _Optional[int] = ..., sources_off: _Optional[_Iterable[str]] = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("run_id", "conversation_id", "question", "model", "attempt", "protocol", "effort", "capped", "given", "form", "remembered")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    conversation_id: str
    question: str
    model: str
    attempt: int
    protocol: _trajectory_pb2.Protocol
    effort: Effort
    capped: _containers.RepeatedScalarFieldContainer[str]
    given: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Material]
    form: AnswerForm
    remembered: _trajectory_pb2.Remembered
    def __init__(self, run_id: _Optional[str] = ..., conversation_id: _Optional[str] = ..., question: _Optional[str] = ..., model: _Optional[str] = ..., attempt: _Optional[int] = ..., protocol: _Optional[_Union[_trajectory_pb2.Protocol, str]] = ..., effort: _Optional[_Union[Effort, str]] = ..., capped: _Optional[_Iterable[str]] = ..., given: _Optional[_Iterable[_Union[_trajectory_pb2.Material, _Mapping]]] = ..., form: _Optional[_Union[AnswerForm, str]] = ..., remembered: _Optional[_Union[_trajectory_pb2.Remembered, _Mapping]] = ...) -> None: ...

class ToolCallStarted(_message.Message):
    __slots__ = ("call", "intent", "step")
    CALL_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    call: _policy_pb2.ToolCall
    intent: str
    step: int
    def __init__(self, call: _Optional[_Union[_policy_pb2.ToolCall, _Mapping]] = ..., intent: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class ToolCallFinished(_message.Message):
    __slots__ = ("result", "material", "step")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    result: _trajectory_pb2.ToolResult
    material: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Material]
    step: int
    def __init__(self, result: _Optional[_Union[_trajectory_pb2.ToolResult, _Mapping]] = ..., material: _Optional[_Iterable[_Union[_trajectory_pb2.Material, _Mapping]]] = ..., step: _Optional[int] = ...) -> None: ...

class Thought(_message.Message):
    __slots__ = ("text", "kind", "step", "tool_call_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    kind: str
    step: int
    tool_call_id: str
    def __init__(self, text: _Optional[str] = ..., kind: _Optional[str] = ..., step: _Optional[int] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class Sampled(_message.Message):
    __slots__ = ("step", "prompt_tokens", "completion_tokens", "window_tokens")
    STEP_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    step: int
    prompt_tokens: int
    completion_tokens: int
    window_tokens: int
    def __init__(self, step: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., window_tokens: _Optional[int] = ...) -> None: ...

class Staged(_message.Message):
    __slots__ = ("step", "stage")
    STEP_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    step: int
    stage: _trajectory_pb2.StageNote
    def __init__(self, step: _Optional[int] = ..., stage: _Optional[_Union[_trajectory_pb2.StageNote, _Mapping]] = ...) -> None: ...

class TodoChanged(_message.Message):
    __slots__ = ("items", "by_user", "step", "change_id")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TodoItem]
    by_user: bool
    step: int
    change_id: str
    def __init__(self, items: _Optional[_Iterable[_Union[TodoItem, _Mapping]]] = ..., by_user: bool = ..., step: _Optional[int] = ..., change_id: _Optional[str] = ...) -> None: ...

class Compacted(_message.Message):
    __slots__ = ("step", "dropped_steps", "tokens_before", "tokens_after", "policy", "window_tokens")
    STEP_FIELD_NUMBER: _ClassVar[int]
    DROPPED_STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    step: int
    dropped_steps: _containers.RepeatedScalarFieldContainer[int]
    tokens_before: int
    tokens_after: int
    policy: str
    window_tokens: int
    def __init__(self, step: _Optional[int] = ..., dropped_steps: _Optional[_Iterable[int]] = ..., tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ..., policy: _Optional[str] = ..., window_tokens: _Optional[int] = ...) -> None: ...

class RunResumed(_message.Message):
    __slots__ = ("leg", "step", "budget")
    LEG_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    leg: int
    step: int
    budget: Budget
    def __init__(self, leg: _Optional[int] = ..., step: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ...) -> None: ...

class AnswerDelta(_message.Message):
    __slots__ = ("text", "step", "draft")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    text: str
    step: int
    draft: bool
    def __init__(self, text: _Optional[str] = ..., step: _Optional[int] = ..., draft: bool = ...) -> None: ...

class AnswerReplaced(_message.Message):
    __slots__ = ("step", "why")
    STEP_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    step: int
    why: str
    def __init__(self, step: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class RunFinished(_message.Message):
    __slots__ = ("stop_reason", "answer", "error", "culprit", "usage", "trajectory", "material", "leg")
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    LEG_FIELD_NUMBER: _ClassVar[int]
    stop_reason: _trajectory_pb2.StopReason
    answer: _trajectory_pb2.Answer
    error: str
    culprit: str
    usage: _common_pb2.Usage
    trajectory: _common_pb2.ObjectRef
    material: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Material]
    leg: int
    def __init__(self, stop_reason: _Optional[_Union[_trajectory_pb2.StopReason, str]] = ..., answer: _Optional[_Union[_trajectory_pb2.Answer, _Mapping]] = ..., error: _Optional[str] = ..., culprit: _Optional[str] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., trajectory: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ..., material: _Optional[_Iterable[_Union[_trajectory_pb2.Material, _Mapping]]] = ..., leg: _Optional[int] = ...) -> None: ...

class TakenUp(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class RunWaiting(_message.Message):
    __slots__ = ("before", "expected_ms", "culprit", "message", "count", "conversation_id")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_MS_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    before: int
    expected_ms: int
    culprit: str
    message: str
    count: int
    conversation_id: str
    def __init__(self, before: _Optional[int] = ..., expected_ms: _Optional[int] = ..., culprit: _Optional[str] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., conversation_id: _Optional[str] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("sequence", "time", "run_id", "started", "thought", "tool_started", "tool_finished", "answer_delta", "finished", "todo_changed", "compacted", "resumed", "sampled", "taken_up", "waiting", "answer_replaced", "staged")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    THOUGHT_FIELD_NUMBER: _ClassVar[int]
    TOOL_STARTED_FIELD_NUMBER: _ClassVar[int]
    TOOL_FINISHED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    TODO_CHANGED_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UP_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ANSWER_REPLACED_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time: _timestamp_pb2.Timestamp
    run_id: str
    started: RunStarted
    thought: Thought
    tool_started: ToolCallStarted
    tool_finished: ToolCallFinished
    answer_delta: AnswerDelta
    finished: RunFinished
    todo_changed: TodoChanged
    compacted: Compacted
    resumed: RunResumed
    sampled: Sampled
    taken_up: TakenUp
    waiting: RunWaiting
    answer_replaced: AnswerReplaced
    staged: Staged
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., run_id: _Optional[str] = ..., started: _Optional[_Union[RunStarted, _Mapping]] = ..., thought: _Optional[_Union[Thought, _Mapping]] = ..., tool_started: _Optional[_Union[ToolCallStarted, _Mapping]] = ..., tool_finished: _Optional[_Union[ToolCallFinished, _Mapping]] = ..., answer_delta: _Optional[_Union[AnswerDelta, _Mapping]] = ..., finished: _Optional[_Union[RunFinished, _Mapping]] = ..., todo_changed: _Optional[_Union[TodoChanged, _Mapping]] = ..., compacted: _Optional[_Union[Compacted, _Mapping]] = ..., resumed: _Optional[_Union[RunResumed, _Mapping]] = ..., sampled: _Optional[_Union[Sampled, _Mapping]] = ..., taken_up: _Optional[_Union[TakenUp, _Mapping]] = ..., waiting: _Optional[_Union[RunWaiting, _Mapping]] = ..., answer_replaced: _Optional[_Union[AnswerReplaced, _Mapping]] = ..., staged: _Optional[_Union[Staged, _Mapping]] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: RunEvent
    def __init__(self, event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class WatchRunRequest(_message.Message):
    __slots__ = ("run_id", "after_sequence")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after_sequence: int
    def __init__(self, run_id: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WatchRunResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: RunEvent
    def __init__(self, event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class StopRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class StopRunResponse(_message.Message):
    __slots__ = ("was_running",)
    WAS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    was_running: bool
    def __init__(self, was_running: bool = ...) -> None: ...

class ResumeRunRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "budget")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    budget: Budget
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ...) -> None: ...

class ResumeRunResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: RunEvent
    def __init__(self, event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class ReplayRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ReplayRunResponse(_message.Message):
    __slots__ = ("same", "difference", "recorded", "replayed", "recorded_hash", "replayed_hash", "steps")
    SAME_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    RECORDED_HASH_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_HASH_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    same: bool
    difference: str
    recorded: str
    replayed: str
    recorded_hash: str
    replayed_hash: str
    steps: int
    def __init__(self, same: bool = ..., difference: _Optional[str] = ..., recorded: _Optional[str] = ..., replayed: _Optional[str] = ..., recorded_hash: _Optional[str] = ..., replayed_hash: _Optional[str] = ..., steps: _Optional[int] = ...) -> None: ...

class BranchRunRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "steps", "budget", "model")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    steps: int
    budget: Budget
    model: str
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., steps: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., model: _Optional[str] = ...) -> None: ...

class BranchRunResponse(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("trajectory", "running", "parent_run_id", "children", "todo", "leg", "conversation_id", "todo_version")
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    TODO_FIELD_NUMBER: _ClassVar[int]
    LEG_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TODO_VERSION_FIELD_NUMBER: _ClassVar[int]
    trajectory: _trajectory_pb2.Trajectory
    running: bool
    parent_run_id: str
    children: _containers.RepeatedCompositeFieldContainer[RunSummary]
    todo: _containers.RepeatedCompositeFieldContainer[TodoItem]
    leg: int
    conversation_id: str
    todo_version: str
    def __init__(self, trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ..., running: bool = ..., parent_run_id: _Optional[str] = ..., children: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ..., todo: _Optional[_Iterable[_Union[TodoItem, _Mapping]]] = ..., leg: _Optional[int] = ..., conversation_id: _Optional[str] = ..., todo_version: _Optional[str] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run_id", "question", "stop_reason", "start_time", "parent_run_id", "leg", "model", "usage", "end_time", "lane", "culprit", "error")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LEG_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    question: str
    stop_reason: _trajectory_pb2.StopReason
    start_time: _timestamp_pb2.Timestamp
    parent_run_id: str
    leg: int
    model: str
    usage: _common_pb2.Usage
    end_time: _timestamp_pb2.Timestamp
    lane: _common_pb2.Lane
    culprit: str
    error: str
    def __init__(self, run_id: _Optional[str] = ..., question: _Optional[str] = ..., stop_reason: _Optional[_Union[_trajectory_pb2.StopReason, str]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., parent_run_id: _Optional[str] = ..., leg: _Optional[int] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lane: _Optional[_Union[_common_pb2.Lane, str]] = ..., culprit: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunSummary]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TodoItem(_message.Message):
    __slots__ = ("text", "state")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    text: str
    state: str
    def __init__(self, text: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class SetConsentRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "consent")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    consent: _trajectory_pb2.Consent
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., consent: _Optional[_Union[_trajectory_pb2.Consent, str]] = ...) -> None: ...

class SetConsentResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConsentRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetConsentResponse(_message.Message):
    __slots__ = ("consent", "of_run")
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    OF_RUN_FIELD_NUMBER: _ClassVar[int]
    consent: _trajectory_pb2.Consent
    of_run: bool
    def __init__(self, consent: _Optional[_Union[_trajectory_pb2.Consent, str]] = ..., of_run: bool = ...) -> None: ...

class UpdateTodoRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "items", "version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    items: _containers.RepeatedCompositeFieldContainer[TodoItem]
    version: str
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[TodoItem, _Mapping]]] = ..., version: _Optional[str] = ...) -> None: ...

class UpdateTodoResponse(_message.Message):
    __slots__ = ("items", "version")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TodoItem]
    version: str
    def __init__(self, items: _Optional[_Iterable[_Union[TodoItem, _Mapping]]] = ..., version: _Optional[str] = ...) -> None: ...

class RouteQuestionRequest(_message.Message):
    __slots__ = ("question",)
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    question: str
    def __init__(self, question: _Optional[str] = ...) -> None: ...

class RouteQuestionResponse(_message.Message):
    __slots__ = ("scene", "confidence", "mode", "protocol", "reason", "unsure", "needs_evidence", "chart", "form")
    SCENE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNSURE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CHART_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    scene: Scene
    confidence: float
    mode: Mode
    protocol: _trajectory_pb2.Protocol
    reason: str
    unsure: bool
    needs_evidence: bool
    chart: str
    form: AnswerForm
    def __init__(self, scene: _Optional[_Union[Scene, str]] = ..., confidence: _Optional[float] = ..., mode: _Optional[_Union[Mode, str]] = ..., protocol: _Optional[_Union[_trajectory_pb2.Protocol, str]] = ..., reason: _Optional[str] = ..., unsure: bool = ..., needs_evidence: bool = ..., chart: _Optional[str] = ..., form: _Optional[_Union[AnswerForm, str]] = ...) -> None: ...

class ListPromptsRequest(_message.Message):
    __slots__ = ("stage",)
    STAGE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    def __init__(self, stage: _Optional[str] = ...) -> None: ...

class PromptFile(_message.Message):
    __slots__ = ("id", "stage", "name", "version", "language", "output", "body", "sha256", "in_use", "issues", "few_shot", "output_schema")
    ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    FEW_SHOT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    id: str
    stage: str
    name: str
    version: int
    language: str
    output: str
    body: str
    sha256: str
    in_use: bool
    issues: _containers.RepeatedScalarFieldContainer[str]
    few_shot: bool
    output_schema: str
    def __init__(self, id: _Optional[str] = ..., stage: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., language: _Optional[str] = ..., output: _Optional[str] = ..., body: _Optional[str] = ..., sha256: _Optional[str] = ..., in_use: bool = ..., issues: _Optional[_Iterable[str]] = ..., few_shot: bool = ..., output_schema: _Optional[str] = ...) -> None: ...

class ListPromptsResponse(_message.Message):
    __slots__ = ("prompts",)
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[PromptFile]
    def __init__(self, prompts: _Optional[_Iterable[_Union[PromptFile, _Mapping]]] = ...) -> None: ...

class ListToolServersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ToolServer(_message.Message):
    __slots__ = ("name", "is_program", "host", "tools", "missing_tools", "is_connected", "credential", "contact")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MISSING_TOOLS_FIELD_NUMBER: _ClassVar[int]
    IS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_program: bool
    host: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    missing_tools: _containers.RepeatedScalarFieldContainer[str]
    is_connected: bool
    credential: _common_pb2.Credential
    contact: _common_pb2.Contact
    def __init__(self, name: _Optional[str] = ..., is_program: bool = ..., host: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., missing_tools: _Optional[_Iterable[str]] = ..., is_connected: bool = ..., credential: _Optional[_Union[_common_pb2.Credential, str]] = ..., contact: _Optional[_Union[_common_pb2.Contact, _Mapping]] = ...) -> None: ...

class ListToolServersResponse(_message.Message):
    __slots__ = ("servers",)
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[ToolServer]
    def __init__(self, servers: _Optional[_Iterable[_Union[ToolServer, _Mapping]]] = ...) -> None: ...

class ProbeToolServerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ProbeToolServerResponse(_message.Message):
    __slots__ = ("is_answering", "failure", "duration_ms")
    IS_ANSWERING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    is_answering: bool
    failure: str
    duration_ms: int
    def __init__(self, is_answering: bool = ..., failure: _Optional[str] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_page_token")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[_policy_pb2.ToolSpec]
    next_page_token: str
    def __init__(self, tools: _Optional[_Iterable[_Union[_policy_pb2.ToolSpec, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RolloutTask(_message.Message):
    __slots__ = ("id", "question", "references", "sheets", "grader", "grader_parameters", "expected_tools", "history", "as_of", "conversation_id", "conversation_turns", "remembered")
    class GraderParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    SHEETS_FIELD_NUMBER: _ClassVar[int]
    GRADER_FIELD_NUMBER: _ClassVar[int]
    GRADER_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_TURNS_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FIELD_NUMBER: _ClassVar[int]
    id: str
    question: str
    references: _containers.RepeatedScalarFieldContainer[str]
    sheets: _containers.RepeatedCompositeFieldContainer[_datafetch_pb2.Sheet]
    grader: str
    grader_parameters: _containers.ScalarMap[str, float]
    expected_tools: _containers.RepeatedScalarFieldContainer[str]
    history: _containers.RepeatedCompositeFieldContainer[_policy_pb2.Message]
    as_of: _timestamp_pb2.Timestamp
    conversation_id: str
    conversation_turns: int
    remembered: _trajectory_pb2.Remembered
    def __init__(self, id: _Optional[str] = ..., question: _Optional[str] = ..., references: _Optional[_Iterable[str]] = ..., sheets: _Optional[_Iterable[_Union[_datafetch_pb2.Sheet, _Mapping]]] = ..., grader: _Optional[str] = ..., grader_parameters: _Optional[_Mapping[str, float]] = ..., expected_tools: _Optional[_Iterable[str]] = ..., history: _Optional[_Iterable[_Union[_policy_pb2.Message, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., conversation_id: _Optional[str] = ..., conversation_turns: _Optional[int] = ..., remembered: _Optional[_Union[_trajectory_pb2.Remembered, _Mapping]] = ...) -> None: ...

class RolloutRequest(_message.Message):
    __slots__ = ("request_id", "tasks", "group_size", "protocol", "model", "policy_version", "sampling", "budget", "effort", "grader", "grader_parameters", "concurrency", "as_of", "system_prompt", "window", "prompts", "tools", "instruction", "invalid_action", "recording")
    class GraderParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class PromptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    GRADER_FIELD_NUMBER: _ClassVar[int]
    GRADER_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    INVALID_ACTION_FIELD_NUMBER: _ClassVar[int]
    RECORDING_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    tasks: _containers.RepeatedCompositeFieldContainer[RolloutTask]
    group_size: int
    protocol: _trajectory_pb2.Protocol
    model: str
    policy_version: int
    sampling: _policy_pb2.Sampling
    budget: Budget
    effort: Effort
    grader: str
    grader_parameters: _containers.ScalarMap[str, float]
    concurrency: int
    as_of: _timestamp_pb2.Timestamp
    system_prompt: str
    window: _trajectory_pb2.Window
    prompts: _containers.ScalarMap[str, str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    instruction: str
    invalid_action: str
    recording: Recording
    def __init__(self, request_id: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[RolloutTask, _Mapping]]] = ..., group_size: _Optional[int] = ..., protocol: _Optional[_Union[_trajectory_pb2.Protocol, str]] = ..., model: _Optional[str] = ..., policy_version: _Optional[int] = ..., sampling: _Optional[_Union[_policy_pb2.Sampling, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., effort: _Optional[_Union[Effort, str]] = ..., grader: _Optional[str] = ..., grader_parameters: _Optional[_Mapping[str, float]] = ..., concurrency: _Optional[int] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., system_prompt: _Optional[str] = ..., window: _Optional[_Union[_trajectory_pb2.Window, _Mapping]] = ..., prompts: _Optional[_Mapping[str, str]] = ..., tools: _Optional[_Iterable[str]] = ..., instruction: _Optional[str] = ..., invalid_action: _Optional[str] = ..., recording: _Optional[_Union[Recording, _Mapping]] = ...) -> None: ...

class RolloutResponse(_message.Message):
    __slots__ = ("trajectory",)
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    trajectory: _trajectory_pb2.Trajectory
    def __init__(self, trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ...) -> None: ...

class SubmitRolloutRequest(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: RolloutRequest
    def __init__(self, rollout: _Optional[_Union[RolloutRequest, _Mapping]] = ...) -> None: ...

class SubmitRolloutResponse(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class WatchRolloutRequest(_message.Message):
    __slots__ = ("rollout_id", "after_sequence")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    after_sequence: int
    def __init__(self, rollout_id: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WatchRolloutResponse(_message.Message):
    __slots__ = ("trajectory", "sequence")
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    trajectory: _trajectory_pb2.Trajectory
    sequence: int
    def __init__(self, trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class StopRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class StopRolloutResponse(_message.Message):
    __slots__ = ("was_queued",)
    WAS_QUEUED_FIELD_NUMBER: _ClassVar[int]
    was_queued: bool
    def __init__(self, was_queued: bool = ...) -> None: ...

from fathom.api.common.v1 import common_pb2 as _common_pb2
from fathom.api.policy.v1 import policy_pb2 as _policy_pb2
from fathom.api.retrieval.v1 import retrieval_pb2 as _retrieval_pb2
from fathom.api.datafetch.v1 import datafetch_pb2 as _datafetch_pb2
from fathom.api.memory.v1 import memory_pb2 as _memory_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Protocol(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROTOCOL_UNSPECIFIED: _ClassVar[Protocol]
    PROTOCOL_RESEARCH: _ClassVar[Protocol]
    PROTOCOL_WORKFLOW: _ClassVar[Protocol]
    PROTOCOL_SEARCH_R1: _ClassVar[Protocol]
    PROTOCOL_AUTO: _ClassVar[Protocol]

class Consent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONSENT_UNSPECIFIED: _ClassVar[Consent]
    CONSENT_GIVEN: _ClassVar[Consent]
    CONSENT_REFUSED: _ClassVar[Consent]

class ToolStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_STATUS_UNSPECIFIED: _ClassVar[ToolStatus]
    TOOL_STATUS_OK: _ClassVar[ToolStatus]
    TOOL_STATUS_EMPTY: _ClassVar[ToolStatus]
    TOOL_STATUS_FAILED: _ClassVar[ToolStatus]
    TOOL_STATUS_INVALID: _ClassVar[ToolStatus]

class StepPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_POLICY_UNSPECIFIED: _ClassVar[StepPolicy]
    STEP_POLICY_OFF: _ClassVar[StepPolicy]
    STEP_POLICY_DELETE: _ClassVar[StepPolicy]
    STEP_POLICY_SUMMARIZE: _ClassVar[StepPolicy]
    STEP_POLICY_HYBRID: _ClassVar[StepPolicy]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_FINISHED: _ClassVar[StopReason]
    STOP_REASON_BUDGET: _ClassVar[StopReason]
    STOP_REASON_STOPPED: _ClassVar[StopReason]
    STOP_REASON_FAILED: _ClassVar[StopReason]
    STOP_REASON_UNFINISHED: _ClassVar[StopReason]

class SlotSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SLOT_SOURCE_UNSPECIFIED: _ClassVar[SlotSource]
    SLOT_SOURCE_QUESTION: _ClassVar[SlotSource]
    SLOT_SOURCE_MODEL: _ClassVar[SlotSource]

class SlotState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SLOT_STATE_UNSPECIFIED: _ClassVar[SlotState]
    SLOT_STATE_FILLED: _ClassVar[SlotState]
    SLOT_STATE_OPEN: _ClassVar[SlotState]
    SLOT_STATE_UNSURE: _ClassVar[SlotState]

class FindingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINDING_KIND_UNSPECIFIED: _ClassVar[FindingKind]
    FINDING_KIND_NUMBER: _ClassVar[FindingKind]
    FINDING_KIND_TIME: _ClassVar[FindingKind]
    FINDING_KIND_EVENT: _ClassVar[FindingKind]
    FINDING_KIND_UNSUPPORTED: _ClassVar[FindingKind]
    FINDING_KIND_UNCITED: _ClassVar[FindingKind]
    FINDING_KIND_UNRESOLVED: _ClassVar[FindingKind]
    FINDING_KIND_TYPED_TABLE: _ClassVar[FindingKind]
    FINDING_KIND_REPEATED: _ClassVar[FindingKind]
    FINDING_KIND_FIGURE: _ClassVar[FindingKind]
    FINDING_KIND_SECTION: _ClassVar[FindingKind]
    FINDING_KIND_UNCHECKED: _ClassVar[FindingKind]
    FINDING_KIND_LENGTH: _ClassVar[FindingKind]
    FINDING_KIND_TRUNCATED: _ClassVar[FindingKind]
PROTOCOL_UNSPECIFIED: Protocol
PROTOCOL_RESEARCH: Protocol
PROTOCOL_WORKFLOW: Protocol
PROTOCOL_SEARCH_R1: Protocol
PROTOCOL_AUTO: Protocol
CONSENT_UNSPECIFIED: Consent
CONSENT_GIVEN: Consent
CONSENT_REFUSED: Consent
TOOL_STATUS_UNSPECIFIED: ToolStatus
TOOL_STATUS_OK: ToolStatus
TOOL_STATUS_EMPTY: ToolStatus
TOOL_STATUS_FAILED: ToolStatus
TOOL_STATUS_INVALID: ToolStatus
STEP_POLICY_UNSPECIFIED: StepPolicy
STEP_POLICY_OFF: StepPolicy
STEP_POLICY_DELETE: StepPolicy
STEP_POLICY_SUMMARIZE: StepPolicy
STEP_POLICY_HYBRID: StepPolicy
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_FINISHED: StopReason
STOP_REASON_BUDGET: StopReason
STOP_REASON_STOPPED: StopReason
STOP_REASON_FAILED: StopReason
STOP_REASON_UNFINISHED: StopReason
SLOT_SOURCE_UNSPECIFIED: SlotSource
SLOT_SOURCE_QUESTION: SlotSource
SLOT_SOURCE_MODEL: SlotSource
SLOT_STATE_UNSPECIFIED: SlotState
SLOT_STATE_FILLED: SlotState
SLOT_STATE_OPEN: SlotState
SLOT_STATE_UNSURE: SlotState
FINDING_KIND_UNSPECIFIED: FindingKind
FINDING_KIND_NUMBER: FindingKind
FINDING_KIND_TIME: FindingKind
FINDING_KIND_EVENT: FindingKind
FINDING_KIND_UNSUPPORTED: FindingKind
FINDING_KIND_UNCITED: FindingKind
FINDING_KIND_UNRESOLVED: FindingKind
FINDING_KIND_TYPED_TABLE: FindingKind
FINDING_KIND_REPEATED: FindingKind
FINDING_KIND_FIGURE: FindingKind
FINDING_KIND_SECTION: FindingKind
FINDING_KIND_UNCHECKED: FindingKind
FINDING_KIND_LENGTH: FindingKind
FINDING_KIND_TRUNCATED: FindingKind

class Material(_message.Message):
    __slots__ = ("number", "passage", "sheet", "code", "missing", "variable", "computed_by", "computed_from")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_BY_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FROM_FIELD_NUMBER: _ClassVar[int]
    number: int
    passage: _retrieval_pb2.Document
    sheet: _datafetch_pb2.Sheet
    code: CodeRecord
    missing: _common_pb2.MissingItem
    variable: str
    computed_by: int
    computed_from: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., passage: _Optional[_Union[_retrieval_pb2.Document, _Mapping]] = ..., sheet: _Optional[_Union[_datafetch_pb2.Sheet, _Mapping]] = ..., code: _Optional[_Union[CodeRecord, _Mapping]] = ..., missing: _Optional[_Union[_common_pb2.MissingItem, _Mapping]] = ..., variable: _Optional[str] = ..., computed_by: _Optional[int] = ..., computed_from: _Optional[_Iterable[str]] = ...) -> None: ...

class CodeRecord(_message.Message):
    __slots__ = ("id", "code", "stdout", "result", "traceback", "ok", "figures", "duration_ms", "run_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    code: str
    stdout: str
    result: str
    traceback: str
    ok: bool
    figures: _containers.RepeatedCompositeFieldContainer[Figure]
    duration_ms: int
    run_id: str
    def __init__(self, id: _Optional[str] = ..., code: _Optional[str] = ..., stdout: _Optional[str] = ..., result: _Optional[str] = ..., traceback: _Optional[str] = ..., ok: bool = ..., figures: _Optional[_Iterable[_Union[Figure, _Mapping]]] = ..., duration_ms: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class Figure(_message.Message):
    __slots__ = ("id", "title", "ref")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    ref: _common_pb2.ObjectRef
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., ref: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("tool_call_id", "tool", "intent", "content", "status", "duration_ms", "material", "is_cached")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    IS_CACHED_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    tool: str
    intent: str
    content: str
    status: ToolStatus
    duration_ms: int
    material: _containers.RepeatedScalarFieldContainer[int]
    is_cached: bool
    def __init__(self, tool_call_id: _Optional[str] = ..., tool: _Optional[str] = ..., intent: _Optional[str] = ..., content: _Optional[str] = ..., status: _Optional[_Union[ToolStatus, str]] = ..., duration_ms: _Optional[int] = ..., material: _Optional[_Iterable[int]] = ..., is_cached: bool = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("policy", "tokens")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    policy: StepPolicy
    tokens: int
    def __init__(self, policy: _Optional[_Union[StepPolicy, str]] = ..., tokens: _Optional[int] = ...) -> None: ...

class ShownMessage(_message.Message):
    __slots__ = ("source", "message")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    source: int
    message: _policy_pb2.Message
    def __init__(self, source: _Optional[int] = ..., message: _Optional[_Union[_policy_pb2.Message, _Mapping]] = ...) -> None: ...

class Compaction(_message.Message):
    __slots__ = ("policy", "shown", "tokens_before", "tokens_after", "dropped", "usage", "written", "failures", "numbers_left_out", "window_tokens")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    policy: StepPolicy
    shown: _containers.RepeatedCompositeFieldContainer[ShownMessage]
    tokens_before: int
    tokens_after: int
    dropped: _containers.RepeatedScalarFieldContainer[str]
    usage: _common_pb2.Usage
    written: bool
    failures: int
    numbers_left_out: int
    window_tokens: int
    def __init__(self, policy: _Optional[_Union[StepPolicy, str]] = ..., shown: _Optional[_Iterable[_Union[ShownMessage, _Mapping]]] = ..., tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ..., dropped: _Optional[_Iterable[str]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., written: bool = ..., failures: _Optional[int] = ..., numbers_left_out: _Optional[int] = ..., window_tokens: _Optional[int] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("first_step", "last_step", "token_ids", "mask", "log_probs")
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    first_step: int
    last_step: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    mask: _containers.RepeatedScalarFieldContainer[int]
    log_probs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., mask: _Optional[_Iterable[int]] = ..., log_probs: _Optional[_Iterable[float]] = ...) -> None: ...

class SubQuery(_message.Message):
    __slots__ = ("tool", "text", "origin", "dropped", "indicators")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    tool: str
    text: str
    origin: str
    dropped: str
    indicators: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tool: _Optional[str] = ..., text: _Optional[str] = ..., origin: _Optional[str] = ..., dropped: _Optional[str] = ..., indicators: _Optional[_Iterable[str]] = ...) -> None: ...

class StageFlaw(_message.Message):
    __slots__ = ("fault", "detail")
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    fault: str
    detail: str
    def __init__(self, fault: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Widening(_message.Message):
    __slots__ = ("part", "found", "error")
    PART_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    part: str
    found: _containers.RepeatedScalarFieldContainer[str]
    error: str
    def __init__(self, part: _Optional[str] = ..., found: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class LibraryNames(_message.Message):
    __slots__ = ("known", "canonical", "inside", "suited")
    class KnownEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CanonicalEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class InsideEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Names
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...
    class SuitedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    SUITED_FIELD_NUMBER: _ClassVar[int]
    known: _containers.ScalarMap[str, str]
    canonical: _containers.ScalarMap[str, str]
    inside: _containers.MessageMap[str, Names]
    suited: _containers.ScalarMap[str, str]
    def __init__(self, known: _Optional[_Mapping[str, str]] = ..., canonical: _Optional[_Mapping[str, str]] = ..., inside: _Optional[_Mapping[str, Names]] = ..., suited: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StageNote(_message.Message):
    __slots__ = ("name", "text", "queries", "flaws", "widening", "library", "room_tokens")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    FLAWS_FIELD_NUMBER: _ClassVar[int]
    WIDENING_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    ROOM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    queries: _containers.RepeatedCompositeFieldContainer[SubQuery]
    flaws: _containers.RepeatedCompositeFieldContainer[StageFlaw]
    widening: _containers.RepeatedCompositeFieldContainer[Widening]
    library: LibraryNames
    room_tokens: int
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., queries: _Optional[_Iterable[_Union[SubQuery, _Mapping]]] = ..., flaws: _Optional[_Iterable[_Union[StageFlaw, _Mapping]]] = ..., widening: _Optional[_Iterable[_Union[Widening, _Mapping]]] = ..., library: _Optional[_Union[LibraryNames, _Mapping]] = ..., room_tokens: _Optional[int] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("index", "new_messages", "completion", "tool_results", "material", "end_time", "versions", "compaction", "context_tokens", "stage")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NEW_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    index: int
    new_messages: _containers.RepeatedCompositeFieldContainer[_policy_pb2.Message]
    completion: _policy_pb2.Completion
    tool_results: _containers.RepeatedCompositeFieldContainer[ToolResult]
    material: _containers.RepeatedCompositeFieldContainer[Material]
    end_time: _timestamp_pb2.Timestamp
    versions: _common_pb2.VersionStamp
    compaction: Compaction
    context_tokens: int
    stage: StageNote
    def __init__(self, index: _Optional[int] = ..., new_messages: _Optional[_Iterable[_Union[_policy_pb2.Message, _Mapping]]] = ..., completion: _Optional[_Union[_policy_pb2.Completion, _Mapping]] = ..., tool_results: _Optional[_Iterable[_Union[ToolResult, _Mapping]]] = ..., material: _Optional[_Iterable[_Union[Material, _Mapping]]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., versions: _Optional[_Union[_common_pb2.VersionStamp, _Mapping]] = ..., compaction: _Optional[_Union[Compaction, _Mapping]] = ..., context_tokens: _Optional[int] = ..., stage: _Optional[_Union[StageNote, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("markdown", "cited", "unresolved", "model", "findings", "material", "reading", "open", "clarification")
    MARKDOWN_FIELD_NUMBER: _ClassVar[int]
    CITED_FIELD_NUMBER: _ClassVar[int]
    UNRESOLVED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CLARIFICATION_FIELD_NUMBER: _ClassVar[int]
    markdown: str
    cited: _containers.RepeatedScalarFieldContainer[int]
    unresolved: _containers.RepeatedScalarFieldContainer[int]
    model: str
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    material: _containers.RepeatedCompositeFieldContainer[Material]
    reading: Reading
    open: _containers.RepeatedScalarFieldContainer[str]
    clarification: Clarification
    def __init__(self, markdown: _Optional[str] = ..., cited: _Optional[_Iterable[int]] = ..., unresolved: _Optional[_Iterable[int]] = ..., model: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., material: _Optional[_Iterable[_Union[Material, _Mapping]]] = ..., reading: _Optional[_Union[Reading, _Mapping]] = ..., open: _Optional[_Iterable[str]] = ..., clarification: _Optional[_Union[Clarification, _Mapping]] = ...) -> None: ...

class Reading(_message.Message):
    __slots__ = ("line", "question", "slots")
    LINE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    line: str
    question: str
    slots: _containers.RepeatedCompositeFieldContainer[Slot]
    def __init__(self, line: _Optional[str] = ..., question: _Optional[str] = ..., slots: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ...) -> None: ...

class Slot(_message.Message):
    __slots__ = ("kind", "text", "value", "start", "end", "source", "state", "detail", "material")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    kind: _datafetch_pb2.MentionKind
    text: str
    value: str
    start: int
    end: int
    source: SlotSource
    state: SlotState
    detail: str
    material: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[_Union[_datafetch_pb2.MentionKind, str]] = ..., text: _Optional[str] = ..., value: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., source: _Optional[_Union[SlotSource, str]] = ..., state: _Optional[_Union[SlotState, str]] = ..., detail: _Optional[str] = ..., material: _Optional[_Iterable[int]] = ...) -> None: ...

class Clarification(_message.Message):
    __slots__ = ("reference", "options")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    reference: str
    options: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reference: _Optional[str] = ..., options: _Optional[_Iterable[str]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("start", "end", "kind", "text", "cited", "detail", "found_in")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CITED_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FOUND_IN_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    kind: FindingKind
    text: str
    cited: _containers.RepeatedScalarFieldContainer[int]
    detail: str
    found_in: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., kind: _Optional[_Union[FindingKind, str]] = ..., text: _Optional[str] = ..., cited: _Optional[_Iterable[int]] = ..., detail: _Optional[str] = ..., found_in: _Optional[_Iterable[int]] = ...) -> None: ...

class Remembered(_message.Message):
    __slots__ = ("facts", "stances", "applied", "question")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    STANCES_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[_memory_pb2.Fact]
    stances: _containers.RepeatedCompositeFieldContainer[_memory_pb2.Stance]
    applied: _containers.RepeatedScalarFieldContainer[str]
    question: str
    def __init__(self, facts: _Optional[_Iterable[_Union[_memory_pb2.Fact, _Mapping]]] = ..., stances: _Optional[_Iterable[_Union[_memory_pb2.Stance, _Mapping]]] = ..., applied: _Optional[_Iterable[str]] = ..., question: _Optional[str] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("run_id", "question", "protocol", "steps", "answer", "stop_reason", "error", "token_ids", "mask", "log_probs", "reward", "reward_components", "version_min", "version_max", "task_index", "sample_index", "exact", "lane", "usage", "hash", "segments", "max_context_tokens", "prompts", "leg", "parent_run_id", "culprit", "given", "error_code", "understood", "principal", "consent", "origin_run_id", "remembered", "report")
    class RewardComponentsEntry(_message.Message):
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
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    REWARD_COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    LEG_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    question: str
    protocol: Protocol
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    answer: Answer
    stop_reason: StopReason
    error: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    mask: _containers.RepeatedScalarFieldContainer[int]
    log_probs: _containers.RepeatedScalarFieldContainer[float]
    reward: float
    reward_components: _containers.ScalarMap[str, float]
    version_min: int
    version_max: int
    task_index: int
    sample_index: int
    exact: bool
    lane: _common_pb2.Lane
    usage: _common_pb2.Usage
    hash: str
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    max_context_tokens: int
    prompts: _containers.ScalarMap[str, str]
    leg: int
    parent_run_id: str
    culprit: str
    given: _containers.RepeatedCompositeFieldContainer[Material]
    error_code: str
    understood: str
    principal: str
    consent: Consent
    origin_run_id: str
    remembered: Remembered
    report: bool
    def __init__(self, run_id: _Optional[str] = ..., question: _Optional[str] = ..., protocol: _Optional[_Union[Protocol, str]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., error: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., mask: _Optional[_Iterable[int]] = ..., log_probs: _Optional[_Iterable[float]] = ..., reward: _Optional[float] = ..., reward_components: _Optional[_Mapping[str, float]] = ..., version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., task_index: _Optional[int] = ..., sample_index: _Optional[int] = ..., exact: bool = ..., lane: _Optional[_Union[_common_pb2.Lane, str]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., hash: _Optional[str] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., max_context_tokens: _Optional[int] = ..., prompts: _Optional[_Mapping[str, str]] = ..., leg: _Optional[int] = ..., parent_run_id: _Optional[str] = ..., culprit: _Optional[str] = ..., given: _Optional[_Iterable[_Union[Material, _Mapping]]] = ..., error_code: _Optional[str] = ..., understood: _Optional[str] = ..., principal: _Optional[str] = ..., consent: _Optional[_Union[Consent, str]] = ..., origin_run_id: _Optional[str] = ..., remembered: _Optional[_Union[Remembered, _Mapping]] = ..., report: bool = ...) -> None: ...

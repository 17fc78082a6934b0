from fathom.api.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Grade(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRADE_UNSPECIFIED: _ClassVar[Grade]
    GRADE_BAD: _ClassVar[Grade]
    GRADE_RATHER_BAD: _ClassVar[Grade]
    GRADE_EVEN: _ClassVar[Grade]
    GRADE_RATHER_GOOD: _ClassVar[Grade]
    GRADE_GOOD: _ClassVar[Grade]

class JudgeStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JUDGE_STYLE_UNSPECIFIED: _ClassVar[JudgeStyle]
    JUDGE_STYLE_PAIRWISE: _ClassVar[JudgeStyle]
    JUDGE_STYLE_RUBRIC: _ClassVar[JudgeStyle]
    JUDGE_STYLE_DIRECT: _ClassVar[JudgeStyle]
GRADE_UNSPECIFIED: Grade
GRADE_BAD: Grade
GRADE_RATHER_BAD: Grade
GRADE_EVEN: Grade
GRADE_RATHER_GOOD: Grade
GRADE_GOOD: Grade
JUDGE_STYLE_UNSPECIFIED: JudgeStyle
JUDGE_STYLE_PAIRWISE: JudgeStyle
JUDGE_STYLE_RUBRIC: JudgeStyle
JUDGE_STYLE_DIRECT: JudgeStyle

class ScoreItem(_message.Message):
    __slots__ = ("grader", "answer", "references", "parameters", "response", "steps", "expected_tools", "frames")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    GRADER_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    grader: str
    answer: str
    references: _containers.RepeatedScalarFieldContainer[str]
    parameters: _containers.ScalarMap[str, float]
    response: str
    steps: _containers.RepeatedCompositeFieldContainer[ToolStep]
    expected_tools: _containers.RepeatedScalarFieldContainer[str]
    frames: _containers.RepeatedCompositeFieldContainer[ScoreFrame]
    def __init__(self, grader: _Optional[str] = ..., answer: _Optional[str] = ..., references: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Mapping[str, float]] = ..., response: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[ToolStep, _Mapping]]] = ..., expected_tools: _Optional[_Iterable[str]] = ..., frames: _Optional[_Iterable[_Union[ScoreFrame, _Mapping]]] = ...) -> None: ...

class ToolStep(_message.Message):
    __slots__ = ("tool", "ok", "repeated_call")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    REPEATED_CALL_FIELD_NUMBER: _ClassVar[int]
    tool: str
    ok: bool
    repeated_call: bool
    def __init__(self, tool: _Optional[str] = ..., ok: bool = ..., repeated_call: bool = ...) -> None: ...

class ScoreFrame(_message.Message):
    __slots__ = ("name", "arrow", "ref")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    name: str
    arrow: bytes
    ref: _common_pb2.ObjectRef
    def __init__(self, name: _Optional[str] = ..., arrow: _Optional[bytes] = ..., ref: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ScoreItem]
    def __init__(self, items: _Optional[_Iterable[_Union[ScoreItem, _Mapping]]] = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("value", "components", "reason")
    class ComponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VALUE_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    value: float
    components: _containers.ScalarMap[str, float]
    reason: str
    def __init__(self, value: _Optional[float] = ..., components: _Optional[_Mapping[str, float]] = ..., reason: _Optional[str] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("scores",)
    SCORES_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[Score]
    def __init__(self, scores: _Optional[_Iterable[_Union[Score, _Mapping]]] = ...) -> None: ...

class ListGradersRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Grader(_message.Message):
    __slots__ = ("name", "description", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[_Iterable[str]] = ...) -> None: ...

class ListGradersResponse(_message.Message):
    __slots__ = ("graders", "next_page_token")
    GRADERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    graders: _containers.RepeatedCompositeFieldContainer[Grader]
    next_page_token: str
    def __init__(self, graders: _Optional[_Iterable[_Union[Grader, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Pair(_message.Message):
    __slots__ = ("question", "left", "right", "reference")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    question: str
    left: str
    right: str
    reference: str
    def __init__(self, question: _Optional[str] = ..., left: _Optional[str] = ..., right: _Optional[str] = ..., reference: _Optional[str] = ...) -> None: ...

class JudgePairsRequest(_message.Message):
    __slots__ = ("request_id", "pairs", "style", "votes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    STYLE_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    pairs: _containers.RepeatedCompositeFieldContainer[Pair]
    style: JudgeStyle
    votes: int
    def __init__(self, request_id: _Optional[str] = ..., pairs: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ..., style: _Optional[_Union[JudgeStyle, str]] = ..., votes: _Optional[int] = ...) -> None: ...

class Judgement(_message.Message):
    __slots__ = ("grade", "reason", "margin", "votes", "failed", "position_bias", "consistent")
    GRADE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MARGIN_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    POSITION_BIAS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENT_FIELD_NUMBER: _ClassVar[int]
    grade: Grade
    reason: str
    margin: float
    votes: int
    failed: int
    position_bias: float
    consistent: bool
    def __init__(self, grade: _Optional[_Union[Grade, str]] = ..., reason: _Optional[str] = ..., margin: _Optional[float] = ..., votes: _Optional[int] = ..., failed: _Optional[int] = ..., position_bias: _Optional[float] = ..., consistent: bool = ...) -> None: ...

class JudgePairsResponse(_message.Message):
    __slots__ = ("judgements", "judge_version")
    JUDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    JUDGE_VERSION_FIELD_NUMBER: _ClassVar[int]
    judgements: _containers.RepeatedCompositeFieldContainer[Judgement]
    judge_version: str
    def __init__(self, judgements: _Optional[_Iterable[_Union[Judgement, _Mapping]]] = ..., judge_version: _Optional[str] = ...) -> None: ...

class ProcessItem(_message.Message):
    __slots__ = ("token_ids", "mask", "outcome")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    mask: _containers.RepeatedScalarFieldContainer[int]
    outcome: float
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., mask: _Optional[_Iterable[int]] = ..., outcome: _Optional[float] = ...) -> None: ...

class ScoreProcessRequest(_message.Message):
    __slots__ = ("items", "group_size")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ProcessItem]
    group_size: int
    def __init__(self, items: _Optional[_Iterable[_Union[ProcessItem, _Mapping]]] = ..., group_size: _Optional[int] = ...) -> None: ...

class ProcessScore(_message.Message):
    __slots__ = ("rewards",)
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    rewards: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rewards: _Optional[_Iterable[float]] = ...) -> None: ...

class ScoreProcessResponse(_message.Message):
    __slots__ = ("scores", "model_version", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SCORES_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[ProcessScore]
    model_version: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, scores: _Optional[_Iterable[_Union[ProcessScore, _Mapping]]] = ..., model_version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class UpdateModelRequest(_message.Message):
    __slots__ = ("request_id", "batch")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    batch: _common_pb2.ObjectRef
    def __init__(self, request_id: _Optional[str] = ..., batch: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class UpdateModelResponse(_message.Message):
    __slots__ = ("model_version", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    model_version: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, model_version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

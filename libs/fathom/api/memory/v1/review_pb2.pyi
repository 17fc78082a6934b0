from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReviewKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVIEW_KIND_UNSPECIFIED: _ClassVar[ReviewKind]
    REVIEW_KIND_COMPARISON: _ClassVar[ReviewKind]
    REVIEW_KIND_REWRITING: _ClassVar[ReviewKind]
    REVIEW_KIND_HALLUCINATION: _ClassVar[ReviewKind]
    REVIEW_KIND_CANDIDATE: _ClassVar[ReviewKind]
    REVIEW_KIND_RECHECK: _ClassVar[ReviewKind]

class ReviewVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVIEW_VERDICT_UNSPECIFIED: _ClassVar[ReviewVerdict]
    REVIEW_VERDICT_GRADE: _ClassVar[ReviewVerdict]
    REVIEW_VERDICT_ACCEPT: _ClassVar[ReviewVerdict]
    REVIEW_VERDICT_REJECT: _ClassVar[ReviewVerdict]
    REVIEW_VERDICT_EDIT: _ClassVar[ReviewVerdict]
REVIEW_KIND_UNSPECIFIED: ReviewKind
REVIEW_KIND_COMPARISON: ReviewKind
REVIEW_KIND_REWRITING: ReviewKind
REVIEW_KIND_HALLUCINATION: ReviewKind
REVIEW_KIND_CANDIDATE: ReviewKind
REVIEW_KIND_RECHECK: ReviewKind
REVIEW_VERDICT_UNSPECIFIED: ReviewVerdict
REVIEW_VERDICT_GRADE: ReviewVerdict
REVIEW_VERDICT_ACCEPT: ReviewVerdict
REVIEW_VERDICT_REJECT: ReviewVerdict
REVIEW_VERDICT_EDIT: ReviewVerdict

class ReviewTurn(_message.Message):
    __slots__ = ("question", "answer")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    question: str
    answer: str
    def __init__(self, question: _Optional[str] = ..., answer: _Optional[str] = ...) -> None: ...

class ReviewText(_message.Message):
    __slots__ = ("label", "text", "owner")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    label: str
    text: str
    owner: str
    def __init__(self, label: _Optional[str] = ..., text: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class MachineVerdict(_message.Message):
    __slots__ = ("verdict", "grade", "reason", "by")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    verdict: str
    grade: int
    reason: str
    by: str
    def __init__(self, verdict: _Optional[str] = ..., grade: _Optional[int] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ReviewGrade(_message.Message):
    __slots__ = ("grade", "reason")
    GRADE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    grade: int
    reason: str
    def __init__(self, grade: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ReviewDecision(_message.Message):
    __slots__ = ("verdict", "grade", "reason", "before", "after", "reviewer", "time")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REVIEWER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    verdict: ReviewVerdict
    grade: int
    reason: str
    before: str
    after: str
    reviewer: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, verdict: _Optional[_Union[ReviewVerdict, str]] = ..., grade: _Optional[int] = ..., reason: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., reviewer: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReviewItem(_message.Message):
    __slots__ = ("id", "kind", "version", "question", "language", "history", "material", "texts", "machine", "previous", "create_time", "decision", "key", "run_id", "source")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: ReviewKind
    version: int
    question: str
    language: str
    history: _containers.RepeatedCompositeFieldContainer[ReviewTurn]
    material: str
    texts: _containers.RepeatedCompositeFieldContainer[ReviewText]
    machine: MachineVerdict
    previous: ReviewGrade
    create_time: _timestamp_pb2.Timestamp
    decision: ReviewDecision
    key: str
    run_id: str
    source: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[ReviewKind, str]] = ..., version: _Optional[int] = ..., question: _Optional[str] = ..., language: _Optional[str] = ..., history: _Optional[_Iterable[_Union[ReviewTurn, _Mapping]]] = ..., material: _Optional[str] = ..., texts: _Optional[_Iterable[_Union[ReviewText, _Mapping]]] = ..., machine: _Optional[_Union[MachineVerdict, _Mapping]] = ..., previous: _Optional[_Union[ReviewGrade, _Mapping]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., decision: _Optional[_Union[ReviewDecision, _Mapping]] = ..., key: _Optional[str] = ..., run_id: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class NewReviewItem(_message.Message):
    __slots__ = ("key", "kind", "question", "language", "history", "material", "texts", "machine", "run_id", "source")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    key: str
    kind: ReviewKind
    question: str
    language: str
    history: _containers.RepeatedCompositeFieldContainer[ReviewTurn]
    material: str
    texts: _containers.RepeatedCompositeFieldContainer[ReviewText]
    machine: MachineVerdict
    run_id: str
    source: str
    def __init__(self, key: _Optional[str] = ..., kind: _Optional[_Union[ReviewKind, str]] = ..., question: _Optional[str] = ..., language: _Optional[str] = ..., history: _Optional[_Iterable[_Union[ReviewTurn, _Mapping]]] = ..., material: _Optional[str] = ..., texts: _Optional[_Iterable[_Union[ReviewText, _Mapping]]] = ..., machine: _Optional[_Union[MachineVerdict, _Mapping]] = ..., run_id: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class AddReviewItemsRequest(_message.Message):
    __slots__ = ("request_id", "items")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    items: _containers.RepeatedCompositeFieldContainer[NewReviewItem]
    def __init__(self, request_id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[NewReviewItem, _Mapping]]] = ...) -> None: ...

class AddReviewItemsResponse(_message.Message):
    __slots__ = ("added", "known")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    added: int
    known: int
    def __init__(self, added: _Optional[int] = ..., known: _Optional[int] = ...) -> None: ...

class ListReviewQueuesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReviewQueue(_message.Message):
    __slots__ = ("kind", "open", "decided")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    kind: ReviewKind
    open: int
    decided: int
    def __init__(self, kind: _Optional[_Union[ReviewKind, str]] = ..., open: _Optional[int] = ..., decided: _Optional[int] = ...) -> None: ...

class ListReviewQueuesResponse(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[ReviewQueue]
    def __init__(self, queues: _Optional[_Iterable[_Union[ReviewQueue, _Mapping]]] = ...) -> None: ...

class ClaimReviewItemRequest(_message.Message):
    __slots__ = ("request_id", "kind", "after_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    kind: ReviewKind
    after_id: str
    def __init__(self, request_id: _Optional[str] = ..., kind: _Optional[_Union[ReviewKind, str]] = ..., after_id: _Optional[str] = ...) -> None: ...

class ClaimReviewItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: ReviewItem
    def __init__(self, item: _Optional[_Union[ReviewItem, _Mapping]] = ...) -> None: ...

class DecideReviewItemRequest(_message.Message):
    __slots__ = ("request_id", "item_id", "version", "verdict", "grade", "reason", "text")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    item_id: str
    version: int
    verdict: ReviewVerdict
    grade: int
    reason: str
    text: str
    def __init__(self, request_id: _Optional[str] = ..., item_id: _Optional[str] = ..., version: _Optional[int] = ..., verdict: _Optional[_Union[ReviewVerdict, str]] = ..., grade: _Optional[int] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class DecideReviewItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: ReviewItem
    def __init__(self, item: _Optional[_Union[ReviewItem, _Mapping]] = ...) -> None: ...

class UndoReviewDecisionRequest(_message.Message):
    __slots__ = ("request_id", "item_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    item_id: str
    def __init__(self, request_id: _Optional[str] = ..., item_id: _Optional[str] = ...) -> None: ...

class UndoReviewDecisionResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: ReviewItem
    def __init__(self, item: _Optional[_Union[ReviewItem, _Mapping]] = ...) -> None: ...

class ListReviewDecisionsRequest(_message.Message):
    __slots__ = ("kind", "page_size", "page_token")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    kind: ReviewKind
    page_size: int
    page_token: str
    def __init__(self, kind: _Optional[_Union[ReviewKind, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReviewDecisionsResponse(_message.Message):
    __slots__ = ("items", "next_page_token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ReviewItem]
    next_page_token: str
    def __init__(self, items: _Optional[_Iterable[_Union[ReviewItem, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

from fathom.api.memory.v1 import review_pb2 as _review_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecallMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECALL_METHOD_UNSPECIFIED: _ClassVar[RecallMethod]
    RECALL_METHOD_MEANING_AND_WORDS: _ClassVar[RecallMethod]
    RECALL_METHOD_WORDS: _ClassVar[RecallMethod]

class FactKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FACT_KIND_UNSPECIFIED: _ClassVar[FactKind]
    FACT_KIND_STATEMENT: _ClassVar[FactKind]
    FACT_KIND_CURRENCY: _ClassVar[FactKind]
    FACT_KIND_UNITS: _ClassVar[FactKind]
    FACT_KIND_LANGUAGE: _ClassVar[FactKind]
    FACT_KIND_DEPTH: _ClassVar[FactKind]
    FACT_KIND_COLOURS: _ClassVar[FactKind]
    FACT_KIND_DECIMALS: _ClassVar[FactKind]
    FACT_KIND_WATCH_LIST: _ClassVar[FactKind]
    FACT_KIND_MEMORY: _ClassVar[FactKind]

class FactOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FACT_ORIGIN_UNSPECIFIED: _ClassVar[FactOrigin]
    FACT_ORIGIN_STATED: _ClassVar[FactOrigin]
    FACT_ORIGIN_LEARNT: _ClassVar[FactOrigin]
RECALL_METHOD_UNSPECIFIED: RecallMethod
RECALL_METHOD_MEANING_AND_WORDS: RecallMethod
RECALL_METHOD_WORDS: RecallMethod
FACT_KIND_UNSPECIFIED: FactKind
FACT_KIND_STATEMENT: FactKind
FACT_KIND_CURRENCY: FactKind
FACT_KIND_UNITS: FactKind
FACT_KIND_LANGUAGE: FactKind
FACT_KIND_DEPTH: FactKind
FACT_KIND_COLOURS: FactKind
FACT_KIND_DECIMALS: FactKind
FACT_KIND_WATCH_LIST: FactKind
FACT_KIND_MEMORY: FactKind
FACT_ORIGIN_UNSPECIFIED: FactOrigin
FACT_ORIGIN_STATED: FactOrigin
FACT_ORIGIN_LEARNT: FactOrigin

class Turn(_message.Message):
    __slots__ = ("number", "question", "rewritten_question", "answer", "run_id", "end_time", "bullets", "parent")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    REWRITTEN_QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    BULLETS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    number: int
    question: str
    rewritten_question: str
    answer: str
    run_id: str
    end_time: _timestamp_pb2.Timestamp
    bullets: _containers.RepeatedScalarFieldContainer[str]
    parent: int
    def __init__(self, number: _Optional[int] = ..., question: _Optional[str] = ..., rewritten_question: _Optional[str] = ..., answer: _Optional[str] = ..., run_id: _Optional[str] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., bullets: _Optional[_Iterable[str]] = ..., parent: _Optional[int] = ...) -> None: ...

class AppendTurnRequest(_message.Message):
    __slots__ = ("request_id", "conversation_id", "turn")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    conversation_id: str
    turn: Turn
    def __init__(self, request_id: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ...) -> None: ...

class AppendTurnResponse(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: Turn
    def __init__(self, turn: _Optional[_Union[Turn, _Mapping]] = ...) -> None: ...

class GetWindowRequest(_message.Message):
    __slots__ = ("conversation_id", "full_turns", "max_turns", "through")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_TURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    full_turns: int
    max_turns: int
    through: int
    def __init__(self, conversation_id: _Optional[str] = ..., full_turns: _Optional[int] = ..., max_turns: _Optional[int] = ..., through: _Optional[int] = ...) -> None: ...

class WindowTurn(_message.Message):
    __slots__ = ("number", "question", "answer", "bullets", "run_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    BULLETS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    question: str
    answer: str
    bullets: _containers.RepeatedScalarFieldContainer[str]
    run_id: str
    def __init__(self, number: _Optional[int] = ..., question: _Optional[str] = ..., answer: _Optional[str] = ..., bullets: _Optional[_Iterable[str]] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetWindowResponse(_message.Message):
    __slots__ = ("turns", "omitted")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[WindowTurn]
    omitted: int
    def __init__(self, turns: _Optional[_Iterable[_Union[WindowTurn, _Mapping]]] = ..., omitted: _Optional[int] = ...) -> None: ...

class ListTurnsRequest(_message.Message):
    __slots__ = ("conversation_id", "page_size", "page_token", "through", "newest_first")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    page_size: int
    page_token: str
    through: int
    newest_first: bool
    def __init__(self, conversation_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., through: _Optional[int] = ..., newest_first: bool = ...) -> None: ...

class ListTurnsResponse(_message.Message):
    __slots__ = ("turns", "next_page_token", "sheets")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SHEETS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    next_page_token: str
    sheets: _containers.RepeatedCompositeFieldContainer[SheetView]
    def __init__(self, turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sheets: _Optional[_Iterable[_Union[SheetView, _Mapping]]] = ...) -> None: ...

class SheetView(_message.Message):
    __slots__ = ("sheet_id", "title", "pinned")
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    sheet_id: str
    title: str
    pinned: bool
    def __init__(self, sheet_id: _Optional[str] = ..., title: _Optional[str] = ..., pinned: bool = ...) -> None: ...

class ListConversationsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "query")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    query: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("id", "title", "turns", "update_time", "pinned", "version", "passage")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    turns: int
    update_time: _timestamp_pb2.Timestamp
    pinned: bool
    version: int
    passage: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., turns: _Optional[int] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., pinned: bool = ..., version: _Optional[int] = ..., passage: _Optional[str] = ...) -> None: ...

class ListConversationsResponse(_message.Message):
    __slots__ = ("conversations", "next_page_token")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[Conversation]
    next_page_token: str
    def __init__(self, conversations: _Optional[_Iterable[_Union[Conversation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateConversationRequest(_message.Message):
    __slots__ = ("conversation_id", "title", "pinned", "version", "sheet")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    title: str
    pinned: bool
    version: int
    sheet: SheetView
    def __init__(self, conversation_id: _Optional[str] = ..., title: _Optional[str] = ..., pinned: bool = ..., version: _Optional[int] = ..., sheet: _Optional[_Union[SheetView, _Mapping]] = ...) -> None: ...

class UpdateConversationResponse(_message.Message):
    __slots__ = ("conversation",)
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    conversation: Conversation
    def __init__(self, conversation: _Optional[_Union[Conversation, _Mapping]] = ...) -> None: ...

class DeleteConversationRequest(_message.Message):
    __slots__ = ("conversation_id",)
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    def __init__(self, conversation_id: _Optional[str] = ...) -> None: ...

class DeleteConversationResponse(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: int
    def __init__(self, turns: _Optional[int] = ...) -> None: ...

class SearchMemoryRequest(_message.Message):
    __slots__ = ("question", "top_k", "page_token", "conversation_id", "through", "after", "before", "older_than_window")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_WINDOW_FIELD_NUMBER: _ClassVar[int]
    question: str
    top_k: int
    page_token: str
    conversation_id: str
    through: int
    after: _timestamp_pb2.Timestamp
    before: _timestamp_pb2.Timestamp
    older_than_window: bool
    def __init__(self, question: _Optional[str] = ..., top_k: _Optional[int] = ..., page_token: _Optional[str] = ..., conversation_id: _Optional[str] = ..., through: _Optional[int] = ..., after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., older_than_window: bool = ...) -> None: ...

class MemoryPage(_message.Message):
    __slots__ = ("conversation_id", "turn", "score", "segment", "continues", "chain", "passage")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn: Turn
    score: float
    segment: int
    continues: int
    chain: int
    passage: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ..., score: _Optional[float] = ..., segment: _Optional[int] = ..., continues: _Optional[int] = ..., chain: _Optional[int] = ..., passage: _Optional[str] = ...) -> None: ...

class TurnId(_message.Message):
    __slots__ = ("conversation_id", "number")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    number: int
    def __init__(self, conversation_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class MemorySegment(_message.Message):
    __slots__ = ("id", "summary", "written_by", "sources", "score", "heat", "first_time", "last_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    HEAT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    id: int
    summary: str
    written_by: str
    sources: _containers.RepeatedCompositeFieldContainer[TurnId]
    score: float
    heat: float
    first_time: _timestamp_pb2.Timestamp
    last_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[int] = ..., summary: _Optional[str] = ..., written_by: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[TurnId, _Mapping]]] = ..., score: _Optional[float] = ..., heat: _Optional[float] = ..., first_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SearchMemoryResponse(_message.Message):
    __slots__ = ("pages", "segments", "method", "next_page_token", "has_turns")
    PAGES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HAS_TURNS_FIELD_NUMBER: _ClassVar[int]
    pages: _containers.RepeatedCompositeFieldContainer[MemoryPage]
    segments: _containers.RepeatedCompositeFieldContainer[MemorySegment]
    method: RecallMethod
    next_page_token: str
    has_turns: bool
    def __init__(self, pages: _Optional[_Iterable[_Union[MemoryPage, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[MemorySegment, _Mapping]]] = ..., method: _Optional[_Union[RecallMethod, str]] = ..., next_page_token: _Optional[str] = ..., has_turns: bool = ...) -> None: ...

class ListFactsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("id", "text", "run_id", "update_time", "confidence", "kind", "value", "subject", "origin", "expire_time", "version", "conversation_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    run_id: str
    update_time: _timestamp_pb2.Timestamp
    confidence: float
    kind: FactKind
    value: str
    subject: str
    origin: FactOrigin
    expire_time: _timestamp_pb2.Timestamp
    version: int
    conversation_id: str
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., run_id: _Optional[str] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., confidence: _Optional[float] = ..., kind: _Optional[_Union[FactKind, str]] = ..., value: _Optional[str] = ..., subject: _Optional[str] = ..., origin: _Optional[_Union[FactOrigin, str]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[int] = ..., conversation_id: _Optional[str] = ...) -> None: ...

class ListFactsResponse(_message.Message):
    __slots__ = ("facts", "next_page_token")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[Fact]
    next_page_token: str
    def __init__(self, facts: _Optional[_Iterable[_Union[Fact, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PutFactRequest(_message.Message):
    __slots__ = ("request_id", "fact")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    fact: Fact
    def __init__(self, request_id: _Optional[str] = ..., fact: _Optional[_Union[Fact, _Mapping]] = ...) -> None: ...

class PutFactResponse(_message.Message):
    __slots__ = ("fact",)
    FACT_FIELD_NUMBER: _ClassVar[int]
    fact: Fact
    def __init__(self, fact: _Optional[_Union[Fact, _Mapping]] = ...) -> None: ...

class DeleteFactRequest(_message.Message):
    __slots__ = ("fact_id",)
    FACT_ID_FIELD_NUMBER: _ClassVar[int]
    fact_id: str
    def __init__(self, fact_id: _Optional[str] = ...) -> None: ...

class DeleteFactResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Stance(_message.Message):
    __slots__ = ("entity", "view", "run_id", "create_time", "id", "measure", "start_date", "end_date", "value", "unit", "as_of")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    START_DATE_FIELD_NUMBER: _ClassVar[int]
    END_DATE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    entity: str
    view: str
    run_id: str
    create_time: _timestamp_pb2.Timestamp
    id: str
    measure: str
    start_date: str
    end_date: str
    value: float
    unit: str
    as_of: str
    def __init__(self, entity: _Optional[str] = ..., view: _Optional[str] = ..., run_id: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., id: _Optional[str] = ..., measure: _Optional[str] = ..., start_date: _Optional[str] = ..., end_date: _Optional[str] = ..., value: _Optional[float] = ..., unit: _Optional[str] = ..., as_of: _Optional[str] = ...) -> None: ...

class RecordStanceRequest(_message.Message):
    __slots__ = ("request_id", "stance")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STANCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    stance: Stance
    def __init__(self, request_id: _Optional[str] = ..., stance: _Optional[_Union[Stance, _Mapping]] = ...) -> None: ...

class RecordStanceResponse(_message.Message):
    __slots__ = ("stance",)
    STANCE_FIELD_NUMBER: _ClassVar[int]
    stance: Stance
    def __init__(self, stance: _Optional[_Union[Stance, _Mapping]] = ...) -> None: ...

class ListStancesRequest(_message.Message):
    __slots__ = ("entities", "page_size", "page_token")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedScalarFieldContainer[str]
    page_size: int
    page_token: str
    def __init__(self, entities: _Optional[_Iterable[str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListStancesResponse(_message.Message):
    __slots__ = ("stances", "next_page_token")
    STANCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    stances: _containers.RepeatedCompositeFieldContainer[Stance]
    next_page_token: str
    def __init__(self, stances: _Optional[_Iterable[_Union[Stance, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteStanceRequest(_message.Message):
    __slots__ = ("stance_id",)
    STANCE_ID_FIELD_NUMBER: _ClassVar[int]
    stance_id: str
    def __init__(self, stance_id: _Optional[str] = ...) -> None: ...

class DeleteStanceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecordFeedbackRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "helpful", "tags", "comment", "edited_answer")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HELPFUL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    EDITED_ANSWER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    helpful: bool
    tags: _containers.RepeatedScalarFieldContainer[str]
    comment: str
    edited_answer: str
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., helpful: bool = ..., tags: _Optional[_Iterable[str]] = ..., comment: _Optional[str] = ..., edited_answer: _Optional[str] = ...) -> None: ...

class RecordFeedbackResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFeedbackRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "helpful", "tag", "run_id", "edited", "after", "before", "with_turn", "own", "newest_first", "conversation_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HELPFUL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EDITED_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    WITH_TURN_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    helpful: bool
    tag: str
    run_id: str
    edited: bool
    after: _timestamp_pb2.Timestamp
    before: _timestamp_pb2.Timestamp
    with_turn: bool
    own: bool
    newest_first: bool
    conversation_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., helpful: bool = ..., tag: _Optional[str] = ..., run_id: _Optional[str] = ..., edited: bool = ..., after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., with_turn: bool = ..., own: bool = ..., newest_first: bool = ..., conversation_id: _Optional[str] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("run_id", "helpful", "tags", "comment", "edited_answer", "create_time", "conversation_id", "turn")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HELPFUL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    EDITED_ANSWER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    helpful: bool
    tags: _containers.RepeatedScalarFieldContainer[str]
    comment: str
    edited_answer: str
    create_time: _timestamp_pb2.Timestamp
    conversation_id: str
    turn: Turn
    def __init__(self, run_id: _Optional[str] = ..., helpful: bool = ..., tags: _Optional[_Iterable[str]] = ..., comment: _Optional[str] = ..., edited_answer: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., conversation_id: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ...) -> None: ...

class ListFeedbackResponse(_message.Message):
    __slots__ = ("feedback", "next_page_token")
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    feedback: _containers.RepeatedCompositeFieldContainer[Feedback]
    next_page_token: str
    def __init__(self, feedback: _Optional[_Iterable[_Union[Feedback, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class MemoryScope(_message.Message):
    __slots__ = ("tenant", "principal", "everybody")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    principal: str
    everybody: bool
    def __init__(self, tenant: _Optional[str] = ..., principal: _Optional[str] = ..., everybody: bool = ...) -> None: ...

class ExportMemoryRequest(_message.Message):
    __slots__ = ("scope", "page_size", "page_token")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    scope: MemoryScope
    page_size: int
    page_token: str
    def __init__(self, scope: _Optional[_Union[MemoryScope, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ExportedRow(_message.Message):
    __slots__ = ("table", "row_json")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROW_JSON_FIELD_NUMBER: _ClassVar[int]
    table: str
    row_json: str
    def __init__(self, table: _Optional[str] = ..., row_json: _Optional[str] = ...) -> None: ...

class ExportMemoryResponse(_message.Message):
    __slots__ = ("rows", "next_page_token")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[ExportedRow]
    next_page_token: str
    def __init__(self, rows: _Optional[_Iterable[_Union[ExportedRow, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class EraseMemoryRequest(_message.Message):
    __slots__ = ("request_id", "scope")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    scope: MemoryScope
    def __init__(self, request_id: _Optional[str] = ..., scope: _Optional[_Union[MemoryScope, _Mapping]] = ...) -> None: ...

class ErasedTable(_message.Message):
    __slots__ = ("table", "rows")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table: str
    rows: int
    def __init__(self, table: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class EraseMemoryResponse(_message.Message):
    __slots__ = ("tables", "has_more")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[ErasedTable]
    has_more: bool
    def __init__(self, tables: _Optional[_Iterable[_Union[ErasedTable, _Mapping]]] = ..., has_more: bool = ...) -> None: ...

from fathom.api.common.v1 import common_pb2 as _common_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ranking(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RANKING_UNSPECIFIED: _ClassVar[Ranking]
    RANKING_LEXICAL: _ClassVar[Ranking]
    RANKING_DENSE: _ClassVar[Ranking]
    RANKING_HYBRID: _ClassVar[Ranking]
RANKING_UNSPECIFIED: Ranking
RANKING_LEXICAL: Ranking
RANKING_DENSE: Ranking
RANKING_HYBRID: Ranking

class SearchFilter(_message.Message):
    __slots__ = ("sources", "types", "entities", "published", "houses", "ratings")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    HOUSES_FIELD_NUMBER: _ClassVar[int]
    RATINGS_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    published: _common_pb2.TimeRange
    houses: _containers.RepeatedScalarFieldContainer[str]
    ratings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sources: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., published: _Optional[_Union[_common_pb2.TimeRange, _Mapping]] = ..., houses: _Optional[_Iterable[str]] = ..., ratings: _Optional[_Iterable[str]] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("queries", "top_k", "corpus", "filter", "as_of", "snapshot", "recency_half_life_days", "ranking", "run")
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RECENCY_HALF_LIFE_DAYS_FIELD_NUMBER: _ClassVar[int]
    RANKING_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    queries: _containers.RepeatedScalarFieldContainer[str]
    top_k: int
    corpus: str
    filter: SearchFilter
    as_of: _timestamp_pb2.Timestamp
    snapshot: str
    recency_half_life_days: float
    ranking: Ranking
    run: str
    def __init__(self, queries: _Optional[_Iterable[str]] = ..., top_k: _Optional[int] = ..., corpus: _Optional[str] = ..., filter: _Optional[_Union[SearchFilter, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[str] = ..., recency_half_life_days: _Optional[float] = ..., ranking: _Optional[_Union[Ranking, str]] = ..., run: _Optional[str] = ...) -> None: ...

class SearchHit(_message.Message):
    __slots__ = ("id", "publish_time", "title", "summary", "score", "source", "page", "parent", "house", "rating", "ocr_confidence")
    ID_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    HOUSE_FIELD_NUMBER: _ClassVar[int]
    RATING_FIELD_NUMBER: _ClassVar[int]
    OCR_CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    publish_time: _timestamp_pb2.Timestamp
    title: str
    summary: str
    score: float
    source: str
    page: int
    parent: str
    house: str
    rating: str
    ocr_confidence: float
    def __init__(self, id: _Optional[str] = ..., publish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., title: _Optional[str] = ..., summary: _Optional[str] = ..., score: _Optional[float] = ..., source: _Optional[str] = ..., page: _Optional[int] = ..., parent: _Optional[str] = ..., house: _Optional[str] = ..., rating: _Optional[str] = ..., ocr_confidence: _Optional[float] = ...) -> None: ...

class SearchResult(_message.Message):
    __slots__ = ("status", "hits")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.Status
    hits: _containers.RepeatedCompositeFieldContainer[SearchHit]
    def __init__(self, status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., hits: _Optional[_Iterable[_Union[SearchHit, _Mapping]]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("results", "snapshot", "is_cached")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    IS_CACHED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SearchResult]
    snapshot: str
    is_cached: bool
    def __init__(self, results: _Optional[_Iterable[_Union[SearchResult, _Mapping]]] = ..., snapshot: _Optional[str] = ..., is_cached: bool = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("ids", "corpus", "page_size", "page_token", "as_of", "enforce_seen_by_run", "snapshot")
    IDS_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_SEEN_BY_RUN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    corpus: str
    page_size: int
    page_token: str
    as_of: _timestamp_pb2.Timestamp
    enforce_seen_by_run: str
    snapshot: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., corpus: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., enforce_seen_by_run: _Optional[str] = ..., snapshot: _Optional[str] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("id", "title", "text", "publish_time", "source", "type", "entities", "total_chars", "page", "parent", "offset", "key", "own", "house", "rating", "ocr_confidence")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CHARS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    HOUSE_FIELD_NUMBER: _ClassVar[int]
    RATING_FIELD_NUMBER: _ClassVar[int]
    OCR_CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    text: str
    publish_time: _timestamp_pb2.Timestamp
    source: str
    type: str
    entities: _containers.RepeatedScalarFieldContainer[str]
    total_chars: int
    page: int
    parent: str
    offset: int
    key: str
    own: bool
    house: str
    rating: str
    ocr_confidence: float
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., text: _Optional[str] = ..., publish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[str] = ..., type: _Optional[str] = ..., entities: _Optional[_Iterable[str]] = ..., total_chars: _Optional[int] = ..., page: _Optional[int] = ..., parent: _Optional[str] = ..., offset: _Optional[int] = ..., key: _Optional[str] = ..., own: bool = ..., house: _Optional[str] = ..., rating: _Optional[str] = ..., ocr_confidence: _Optional[float] = ...) -> None: ...

class FetchResult(_message.Message):
    __slots__ = ("status", "document", "next_page_token")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.Status
    document: Document
    next_page_token: str
    def __init__(self, status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., document: _Optional[_Union[Document, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("results", "snapshot")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[FetchResult]
    snapshot: str
    def __init__(self, results: _Optional[_Iterable[_Union[FetchResult, _Mapping]]] = ..., snapshot: _Optional[str] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("request_id", "corpus", "document", "data", "media_type", "source", "publish_time", "delete_source")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    corpus: str
    document: Document
    data: bytes
    media_type: str
    source: str
    publish_time: _timestamp_pb2.Timestamp
    delete_source: str
    def __init__(self, request_id: _Optional[str] = ..., corpus: _Optional[str] = ..., document: _Optional[_Union[Document, _Mapping]] = ..., data: _Optional[bytes] = ..., media_type: _Optional[str] = ..., source: _Optional[str] = ..., publish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., delete_source: _Optional[str] = ...) -> None: ...

class IngestIssue(_message.Message):
    __slots__ = ("line", "message", "source")
    LINE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    line: int
    message: str
    source: str
    def __init__(self, line: _Optional[int] = ..., message: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("added", "duplicates", "rejected", "snapshot", "issues", "deleted")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    added: int
    duplicates: int
    rejected: int
    snapshot: str
    issues: _containers.RepeatedCompositeFieldContainer[IngestIssue]
    deleted: int
    def __init__(self, added: _Optional[int] = ..., duplicates: _Optional[int] = ..., rejected: _Optional[int] = ..., snapshot: _Optional[str] = ..., issues: _Optional[_Iterable[_Union[IngestIssue, _Mapping]]] = ..., deleted: _Optional[int] = ...) -> None: ...

class ImportDocumentRequest(_message.Message):
    __slots__ = ("request_id", "corpus", "data", "source", "publish_time", "lifetime_s")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    corpus: str
    data: _common_pb2.ObjectRef
    source: str
    publish_time: _timestamp_pb2.Timestamp
    lifetime_s: int
    def __init__(self, request_id: _Optional[str] = ..., corpus: _Optional[str] = ..., data: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ..., source: _Optional[str] = ..., publish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lifetime_s: _Optional[int] = ...) -> None: ...

class ImportDocumentResponse(_message.Message):
    __slots__ = ("corpus", "added", "duplicates", "issues")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    added: int
    duplicates: int
    issues: _containers.RepeatedCompositeFieldContainer[IngestIssue]
    def __init__(self, corpus: _Optional[str] = ..., added: _Optional[int] = ..., duplicates: _Optional[int] = ..., issues: _Optional[_Iterable[_Union[IngestIssue, _Mapping]]] = ...) -> None: ...

class DeleteDocumentRequest(_message.Message):
    __slots__ = ("request_id", "corpus", "source", "publish_time")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    corpus: str
    source: str
    publish_time: _timestamp_pb2.Timestamp
    def __init__(self, request_id: _Optional[str] = ..., corpus: _Optional[str] = ..., source: _Optional[str] = ..., publish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteDocumentResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    def __init__(self, snapshot: _Optional[str] = ...) -> None: ...

class ListCorporaRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Corpus(_message.Message):
    __slots__ = ("name", "description", "documents", "snapshot", "as_of")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    documents: int
    snapshot: str
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., documents: _Optional[int] = ..., snapshot: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListCorporaResponse(_message.Message):
    __slots__ = ("corpora", "next_page_token")
    CORPORA_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpora: _containers.RepeatedCompositeFieldContainer[Corpus]
    next_page_token: str
    def __init__(self, corpora: _Optional[_Iterable[_Union[Corpus, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("corpus", "page_size", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    page_size: int
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("id", "create_time", "documents", "manifest")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    id: str
    create_time: _timestamp_pb2.Timestamp
    documents: int
    manifest: _common_pb2.ObjectRef
    def __init__(self, id: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., documents: _Optional[int] = ..., manifest: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "next_page_token")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    next_page_token: str
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateSnapshotRequest(_message.Message):
    __slots__ = ("request_id", "corpus")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    corpus: str
    def __init__(self, request_id: _Optional[str] = ..., corpus: _Optional[str] = ...) -> None: ...

class CreateSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class ActivateSnapshotRequest(_message.Message):
    __slots__ = ("request_id", "corpus", "snapshot")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    corpus: str
    snapshot: str
    def __init__(self, request_id: _Optional[str] = ..., corpus: _Optional[str] = ..., snapshot: _Optional[str] = ...) -> None: ...

class ActivateSnapshotResponse(_message.Message):
    __slots__ = ("active", "previous")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    active: Snapshot
    previous: str
    def __init__(self, active: _Optional[_Union[Snapshot, _Mapping]] = ..., previous: _Optional[str] = ...) -> None: ...

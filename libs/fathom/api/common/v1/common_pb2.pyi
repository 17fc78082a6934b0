from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MissingReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSING_REASON_UNSPECIFIED: _ClassVar[MissingReason]
    MISSING_REASON_UNKNOWN_ENTITY: _ClassVar[MissingReason]
    MISSING_REASON_UNKNOWN_INDICATOR: _ClassVar[MissingReason]
    MISSING_REASON_NO_DATA_IN_PERIOD: _ClassVar[MissingReason]
    MISSING_REASON_NOT_YET_PUBLISHED: _ClassVar[MissingReason]
    MISSING_REASON_NO_MATCH: _ClassVar[MissingReason]
    MISSING_REASON_SOURCE_FAILED: _ClassVar[MissingReason]
    MISSING_REASON_NOT_UNDERSTOOD: _ClassVar[MissingReason]

class Lane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LANE_UNSPECIFIED: _ClassVar[Lane]
    LANE_INTERACTIVE: _ClassVar[Lane]
    LANE_EVALUATION: _ClassVar[Lane]
    LANE_TRAINING: _ClassVar[Lane]

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_IMPLEMENTED: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_READY: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_PAYLOAD_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_DEPENDENCY_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_CORRUPT_DATA: _ClassVar[ErrorReason]
    ERROR_REASON_VERSION_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_MISSING_EXTRA: _ClassVar[ErrorReason]
    ERROR_REASON_FAILED_PRECONDITION: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_REFUSED: _ClassVar[ErrorReason]
    ERROR_REASON_UNREADABLE_CONTENT: _ClassVar[ErrorReason]
    ERROR_REASON_CONTEXT_TOO_LONG: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_PERMISSION_DENIED: _ClassVar[ErrorReason]

class Credential(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CREDENTIAL_UNSPECIFIED: _ClassVar[Credential]
    CREDENTIAL_SET: _ClassVar[Credential]
    CREDENTIAL_MISSING: _ClassVar[Credential]
MISSING_REASON_UNSPECIFIED: MissingReason
MISSING_REASON_UNKNOWN_ENTITY: MissingReason
MISSING_REASON_UNKNOWN_INDICATOR: MissingReason
MISSING_REASON_NO_DATA_IN_PERIOD: MissingReason
MISSING_REASON_NOT_YET_PUBLISHED: MissingReason
MISSING_REASON_NO_MATCH: MissingReason
MISSING_REASON_SOURCE_FAILED: MissingReason
MISSING_REASON_NOT_UNDERSTOOD: MissingReason
LANE_UNSPECIFIED: Lane
LANE_INTERACTIVE: Lane
LANE_EVALUATION: Lane
LANE_TRAINING: Lane
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_NOT_FOUND: ErrorReason
ERROR_REASON_NOT_IMPLEMENTED: ErrorReason
ERROR_REASON_NOT_READY: ErrorReason
ERROR_REASON_DEADLINE: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_PAYLOAD_TOO_LARGE: ErrorReason
ERROR_REASON_DEPENDENCY_FAILED: ErrorReason
ERROR_REASON_SESSION_LOST: ErrorReason
ERROR_REASON_CORRUPT_DATA: ErrorReason
ERROR_REASON_VERSION_MISMATCH: ErrorReason
ERROR_REASON_CONFLICT: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_MISSING_EXTRA: ErrorReason
ERROR_REASON_FAILED_PRECONDITION: ErrorReason
ERROR_REASON_UPSTREAM_REFUSED: ErrorReason
ERROR_REASON_UNREADABLE_CONTENT: ErrorReason
ERROR_REASON_CONTEXT_TOO_LONG: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_PERMISSION_DENIED: ErrorReason
CREDENTIAL_UNSPECIFIED: Credential
CREDENTIAL_SET: Credential
CREDENTIAL_MISSING: Credential

class ObjectRef(_message.Message):
    __slots__ = ("key", "size_bytes", "sha256", "content_type")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    key: str
    size_bytes: int
    sha256: str
    content_type: str
    def __init__(self, key: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., content_type: _Optional[str] = ...) -> None: ...

class MissingItem(_message.Message):
    __slots__ = ("subject", "aspect", "period", "reason", "nearest", "detail")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ASPECT_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    subject: str
    aspect: str
    period: str
    reason: MissingReason
    nearest: _containers.RepeatedScalarFieldContainer[str]
    detail: str
    def __init__(self, subject: _Optional[str] = ..., aspect: _Optional[str] = ..., period: _Optional[str] = ..., reason: _Optional[_Union[MissingReason, str]] = ..., nearest: _Optional[_Iterable[str]] = ..., detail: _Optional[str] = ...) -> None: ...

class VersionStamp(_message.Message):
    __slots__ = ("fathom", "proto_hash", "snapshot", "prompt_hash", "policy_version")
    FATHOM_FIELD_NUMBER: _ClassVar[int]
    PROTO_HASH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_HASH_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    fathom: str
    proto_hash: str
    snapshot: str
    prompt_hash: str
    policy_version: int
    def __init__(self, fathom: _Optional[str] = ..., proto_hash: _Optional[str] = ..., snapshot: _Optional[str] = ..., prompt_hash: _Optional[str] = ..., policy_version: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_tokens", "duration_ms", "reasoning_tokens", "estimated", "cost")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    duration_ms: int
    reasoning_tokens: int
    estimated: bool
    cost: float
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., duration_ms: _Optional[int] = ..., reasoning_tokens: _Optional[int] = ..., estimated: bool = ..., cost: _Optional[float] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("start_time", "end_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Contact(_message.Message):
    __slots__ = ("tried", "answered", "failed", "failure")
    TRIED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    tried: _timestamp_pb2.Timestamp
    answered: _timestamp_pb2.Timestamp
    failed: _timestamp_pb2.Timestamp
    failure: str
    def __init__(self, tried: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., answered: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., failed: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., failure: _Optional[str] = ...) -> None: ...
